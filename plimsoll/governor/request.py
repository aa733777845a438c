"""One open request as the governor keeps it: from arrival until it is settled."""

from math import inf
from typing import Final

from msgspec.structs import astuple

from plimsoll.governor.counts import Counts
from plimsoll.governor.events import NO_OUTPUT, Checked, Criticality, Endpoint, ReplicaReport, RequestArrived
from plimsoll.governor.lifecycle import RECEIVED, next_state
from plimsoll.governor.matched import Matched
from plimsoll.governor.prefiller import Prefiller
from plimsoll.governor.prefixes import Holders
from plimsoll.governor.tenants import Account
from plimsoll.governor.tiers import TierQueue
from plimsoll.policy.objective import Objective
from plimsoll.policy.policy import Tier, UpstreamTrust
from plimsoll.slo.outcome import Reason

# Bound once: compiled code looks names of the uncompiled world up by their text.
_astuple: Final = astuple
_NO_OUTPUT: Final = NO_OUTPUT
_NOTHING_KNOWN: Final[tuple[dict[str, int], dict[str, int]]] = ({}, {})


class Request:
    """Mutable, owned by the governor. Tokens are per choice where they are of output.

    The event's fields are copied: reading a frozen value's field costs more than reading our own, and these are read
    often (a test holds their order).
    """

    arrived_at: float
    id: int
    tenant: str
    model: str
    prompt_tokens: int
    max_output_tokens: int
    num_choices: int
    prefix_hashes: tuple[int, ...]
    prefix_block_tokens: int
    endpoint: Endpoint
    streaming: bool
    asked_tier: str
    cause: str
    criticality: Criticality
    session: str
    deadline_at: float
    upstream_time: float | None
    upstream_trust: UpstreamTrust
    adapter: str
    client_request_id: str
    trace_id: str
    body_hash: int
    parent_span_id: str
    prompt_entropy: float | None
    checked: Checked | None
    matched: Matched | None
    account: Account
    counts: Counts
    tier_queue: TierQueue
    tier: Tier  # what was promised; stays through policy changes
    tier_name: str
    objectives: tuple[Objective, ...]
    known: dict[str, int]  # prompt tokens that replicas hold by their events, or …
    at_least: dict[str, int]  # … hold more than

    def __init__(self, arrived: RequestArrived, sequence: int) -> None:
        # fmt: off
        (
            self.arrived_at, self.id, self.tenant, self.model, self.prompt_tokens, self.max_output_tokens,
            self.num_choices, self.prefix_hashes, self.prefix_block_tokens, self.endpoint, self.streaming,
            self.asked_tier, self.cause, self.criticality, self.session, self.deadline_at, self.upstream_time,
            self.upstream_trust, self.adapter, self.client_request_id, self.trace_id, self.body_hash,
            self.parent_span_id, self.prompt_entropy, self.checked, self.matched,
        ) = _astuple(arrived)
        # fmt: on
        matched = self.matched  # asking for it is part of its time in the queue
        self.came_at = self.arrived_at if matched is None else matched.asked_at  # when it came, after its plugins
        self.known, self.at_least = _NOTHING_KNOWN if matched is None else _held_by_replica(matched)
        self.arrived_at = self.came_at if self.checked is None else self.checked.read_at
        self.sequence, self.state = sequence, RECEIVED  # in order of arrival, the last word in every tie
        # what it needs
        self.makes_tokens = self.endpoint not in _NO_OUTPUT
        self.output_tokens = 0  # reserved, a choice
        self.blocks = self.sized_for = 0  # KV blocks for all that, of so many tokens each; 0: to be counted
        self.expected_output = self.made = 0  # predicted, a choice; and what it was, once completed
        self.held = self.usual = False  # counted against its tenant's limits on arrival; reserved by its usual outputs
        self.token_estimate = 0  # taken from the tenant's tokens per minute
        # what is taken from it
        self.degraded = ""  # in words, for its row and its client
        self.drafts = True  # False: its engine should not guess tokens for it
        self.sent_model = ""  # "": what it asked for
        # where it waits
        self.class_number = 0  # within its tenant's turns
        self.due_at = inf  # to be dispatched by then, where the rules ask
        self.late = False  # it was not
        self.sheddable = False  # leaves the queue before others do
        self.pool_index, self.lane = -1, 0  # … and which queue within the pool
        self.queued_at, self.expire_at = 0.0, inf
        self.bypassed = 0  # later, smaller ones that passed it
        self.kept_index = -1  # the replica that keeps room for it, once it has been passed often enough
        self.tried = self.attempts = 0  # bit mask of the replicas that failed it; how often it was sent
        self.last_failure: Reason | None = None
        # where it runs
        self.replica_index, self.replica_name = -1, ""
        self.units = 0  # booked on the replica: KV blocks or slots; 0: nothing
        self.blocks_reserved = 0  # most KV blocks booked at once
        self.grown_at = self.booked_before = 0  # output tokens at last growth, and blocks × tokens until then
        self.release_bucket = 0  # when they are predicted to come back
        self.pending_prompt = 0  # prompt tokens that the replica has yet to compute, as far as we know …
        self.prompt_ahead = 0  # … and those of all before it and itself at dispatch
        self.holders: Holders | None = None  # who holds its prefix, while it is being routed
        self.cached_estimate = 0  # prompt tokens that the replica should hold already …
        self.cached_from = ""  # … by what was "sent" there or by its "events"; "": nothing is known of its prefix
        self.predicted_ttft = self.predicted_itl = 0.0  # s after dispatch, by step times; 0: not predicted; by a log: …
        self.learned_ttft = self.late_ttft = 0.0  # … median, 90 % quantile
        self.ttft_pace = self.itl_pace = 1.0  # what step times were multiplied by
        self.charged = 0.0  # on the tenant's virtual counter
        self.dispatched_at = self.first_token_at = 0.0
        self.report: ReplicaReport | None = None  # the replica's last word at dispatch …
        self.report_age = 0.0
        self.prefiller: Prefiller | None = None  # computes its prompt apart …
        self.prefill_tokens = 0  # … and still has so many of it to come, as far as we know
        self.whole = False  # its transfer failed: one engine does both
        self.twin: Request | None = None  # a second place, while it is hedged
        self.hedge = ""  # what became of it: "asked", "won", "lost", "failed"

    @property
    def likeness(self) -> int:
        """By which a client that comes back is known again: it repeats its request as it was."""
        if self.body_hash:  # lengths are estimates that a live gateway learns to make better meanwhile
            return self.body_hash * 65_537 + self.account.index
        likeness = (
            (self.prompt_tokens * 1_000_003 + self.max_output_tokens) * 31
            + self.num_choices * 65_537
            + self.account.index
        )
        hashes = self.prefix_hashes
        return likeness ^ hashes[-1] if hashes else likeness

    def belongs_to(self, account: Account, tier: TierQueue, counts: Counts, lane: int) -> None:
        """Whose it is, what it is promised, where it is counted and in which queue of a pool it would wait."""
        self.account = account
        self.tier_queue = tier
        self.tier = tier.tier
        self.tier_name = tier.name
        self.objectives = tier.objectives
        self.counts = counts
        self.lane = lane
        self.expire_at = min(self.deadline_at, self.came_at + tier.queue_timeout)

    def second_place(self) -> "Request":
        """A twin that can hold a second place for it; it is not counted, queued or settled."""
        # fmt: off
        twin = Request(RequestArrived(
            self.arrived_at, self.id, self.tenant, self.model, self.prompt_tokens, self.max_output_tokens,
            self.num_choices, self.prefix_hashes, self.prefix_block_tokens, self.endpoint, self.streaming,
            self.asked_tier, self.cause, self.criticality, self.session, self.deadline_at, self.upstream_time,
            self.upstream_trust, self.adapter, self.client_request_id, self.trace_id, self.body_hash,
            self.parent_span_id, self.prompt_entropy,
        ), self.sequence)
        # fmt: on
        twin.belongs_to(self.account, self.tier_queue, self.counts, self.lane)
        twin.output_tokens, twin.expected_output = self.output_tokens, self.expected_output
        twin.state = self.state
        twin.matched, twin.known, twin.at_least = self.matched, self.known, self.at_least
        return twin

    def takes_place_of(self, twin: "Request") -> None:
        """Its first place was given back: the second is its own now."""
        self.replica_index, self.replica_name = twin.replica_index, twin.replica_name
        self.units, self.release_bucket = twin.units, twin.release_bucket
        self.blocks, self.sized_for = twin.blocks, twin.sized_for
        self.blocks_reserved = max(self.blocks_reserved, twin.blocks_reserved)
        self.grown_at = self.booked_before = 0
        self.pending_prompt, self.prompt_ahead = twin.pending_prompt, twin.prompt_ahead
        self.cached_estimate, self.cached_from = twin.cached_estimate, twin.cached_from
        self.predicted_ttft, self.predicted_itl = twin.predicted_ttft, twin.predicted_itl
        self.ttft_pace, self.itl_pace = twin.ttft_pace, twin.itl_pace
        self.learned_ttft, self.late_ttft = twin.learned_ttft, twin.late_ttft
        self.report, self.report_age = twin.report, twin.report_age

    def booked_until(self, tokens: int) -> int:
        """Blocks × output tokens that it had booked up to its token of that number (of a choice)."""
        return self.booked_before + self.blocks * max(0, tokens - self.grown_at)

    def held_by(self, replica: str, sent: int) -> int:
        """Prompt tokens that a replica holds; `sent`: as many as by what was sent there."""
        known = self.known.get(replica, -1)
        return known if known >= 0 else max(sent, self.at_least.get(replica, 0))

    def step(self, step: int) -> None:
        """Go to the next state by the table; raises IllegalTransition where it has none."""
        before = self.state
        self.state = after = next_state(self.id, before, step)
        self.counts.moved(before, after)


def _held_by_replica(matched: Matched) -> tuple[dict[str, int], dict[str, int]]:
    """What replicas hold, and hold at least. No method: one called while a request is made would cost all its fields
    a check wherever compiled code reads them."""
    known: dict[str, int] = {}
    at_least: dict[str, int] = {}
    for replica, tokens, whole in zip(matched.replicas, matched.tokens, matched.whole, strict=True):
        if whole:
            known[replica] = tokens
        elif tokens:
            at_least[replica] = tokens
    return known, at_least
