"""One open request as the governor keeps it: from arrival until it is settled."""

from math import inf

from plimsoll.governor.counts import Counts
from plimsoll.governor.events import ReplicaReport, RequestArrived
from plimsoll.governor.lifecycle import RECEIVED, next_state
from plimsoll.governor.tenants import Account
from plimsoll.governor.tiers import TierQueue
from plimsoll.slo.outcome import Reason


class Request:
    """Mutable, owned by the governor. Tokens are per choice where they are of output."""

    def __init__(
        self, arrived: RequestArrived, sequence: int, account: Account, tier: TierQueue, counts: Counts
    ) -> None:
        self.arrived = arrived
        self.id: int = arrived.request_id
        self.arrived_at: float = arrived.at
        self.sequence = sequence  # order of arrival, the last word in every tie
        self.account = account
        self.tier = tier.tier  # what was promised; stays through policy changes
        self.tier_queue = tier
        self.counts = counts
        self.state = RECEIVED
        # what it needs
        self.prompt_tokens: int = arrived.prompt_tokens
        self.num_choices: int = arrived.num_choices
        self.prefix_hashes: tuple[int, ...] = arrived.prefix_hashes
        self.output_tokens = 0  # reserved, a choice
        self.expected_output = 0  # predicted, a choice
        self.token_estimate = 0  # taken from the tenant's tokens per minute
        # where it waits
        self.pool_index = -1
        self.lane = 0  # its queue within the pool
        self.queued_at = 0.0
        self.expire_at = inf
        self.bypassed = 0  # later, smaller ones that passed it
        self.tried = 0  # bit mask of the replicas that failed it
        self.attempts = 0
        self.last_failure: Reason | None = None
        # where it runs
        self.replica_index = -1
        self.replica_name = ""
        self.units = 0  # booked on the replica: KV blocks or slots; 0: nothing
        self.blocks_reserved = 0  # most KV blocks booked at once
        self.release_bucket = 0  # when they are predicted to come back
        self.pending_prompt = 0  # prompt tokens that the replica has yet to compute, as far as we know
        self.masks: list[int] | None = None  # who holds its prefix, while it is being routed
        self.cached_estimate = 0  # prompt tokens that the replica should hold already
        self.charged = 0.0  # on the tenant's virtual counter
        self.dispatched_at = 0.0
        self.first_token_at = 0.0
        self.report: ReplicaReport | None = None  # the replica's last word at dispatch …
        self.report_age = 0.0

    def step(self, step: int) -> None:
        """Go to the next state by the table; raises IllegalTransition where it has none."""
        before = self.state
        self.state = after = next_state(self.id, before, step)
        self.counts.moved(before, after)
