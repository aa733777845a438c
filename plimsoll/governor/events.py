"""What the hands tell the governor. Past tense, each with the instant at which it happened.

All are frozen, tagged by their class name, and can be recorded and replayed with `msgspec`.
"""

from enum import StrEnum
from math import inf
from typing import Final

from msgspec import Struct

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.matched import Matched
from plimsoll.governor.shown import PoolPace, ReplicaSteadiness
from plimsoll.policy.policy import Policy, UpstreamTrust
from plimsoll.requestlog.enginestate import EngineState
from plimsoll.slo.budget import BudgetHealth
from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.timing import Timing


class Endpoint(StrEnum):
    """Which API a request came by; decides what is judged."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    EMBEDDINGS = "embeddings"
    OTHER = "other"


NO_OUTPUT: Final = (Endpoint.EMBEDDINGS, Endpoint.OTHER)
"""Whose answers are no output tokens: none are reserved for them, and ttft, itl and tpot do not judge them.

A tuple, since hashing a member of an enum costs more than comparing it with two."""


ENTROPY_EVERY: Final = 8
"""Hands measure the entropy of one prompt in so many: enough to see a tenant's prompts change."""


class Criticality(StrEnum):
    """How much it hurts to lose a request; only non-critical ones are degraded by budget."""

    CRITICAL = "critical"
    DEFAULT = "default"
    SHEDDABLE = "sheddable"


class Checked(Struct, frozen=True, gc=False):
    """What plugins made of a request before it arrived."""

    read_at: float  # when it was read whole: its times count from there
    told: str  # by plugin: "guard:allow,topic:dropped"; beside these deny, error, timeout, busy
    reason: Reason | None = None  # why it is to be refused; None: it goes on
    dropped: bool = False  # the ladder left plugins out


class RequestRead(Struct, frozen=True, gc=False, tag=True):
    """A request was read whole, and the policy has plugins: which of them look at it? RequestArrived follows then."""

    at: float
    request_id: int
    tenant: str
    model: str
    prompt_tokens: int
    criticality: Criticality = Criticality.CRITICAL
    tier: str = ""  # asked for by header; "": the tenant's own


class RequestArrived(Struct, frozen=True, gc=False, tag=True):
    """A well-formed request of a known tenant. Lengths are estimates; the true output length is not known here."""

    at: float
    request_id: int
    tenant: str
    model: str
    prompt_tokens: int
    max_output_tokens: int = 0  # 0: the client set none
    num_choices: int = 1
    prefix_hashes: tuple[int, ...] = ()  # chained: equal at i means equal up to the end of block i
    prefix_block_tokens: int = 512  # tokens that one prefix hash stands for
    endpoint: Endpoint = Endpoint.CHAT
    streaming: bool = True
    tier: str = ""  # asked for by header; "": the tenant's own
    cause: str = ""
    criticality: Criticality = Criticality.CRITICAL
    session: str = ""
    deadline_at: float = inf
    upstream_time: float | None = None  # s spent before us, as reported; None: not reported
    upstream_trust: UpstreamTrust = UpstreamTrust.NONE
    adapter: str = ""  # LoRA; "": none, or the model's name is the adapter's (the policy's pools say which are)
    client_request_id: str = ""
    trace_id: str = ""
    body_hash: int = 0  # of what was sent, so that who sends it again is known; 0: not known
    parent_span_id: str = ""  # the client's span in that trace, 16 hex digits; "": none was sent
    prompt_entropy: float | None = None  # bits a byte that are left when what repeats is told once; None: not measured
    checked: Checked | None = None  # by plugins, before `at`; None: none were asked
    matched: Matched | None = None  # before `at`; None: no engine was asked


class RequestRefused(Struct, frozen=True, gc=False, tag=True):
    """The hands refused a request of a known tenant before the governor could see it whole (bad JSON, too large …)."""

    at: float
    request_id: int
    tenant: str
    reason: Reason
    model: str = ""
    client_request_id: str = ""
    trace_id: str = ""
    parent_span_id: str = ""


class RequestCancelled(Struct, frozen=True, gc=False, tag=True):
    """The client left while its request was queued. After dispatch the hands send RequestFinished(aborted) instead."""

    at: float
    request_id: int


class FirstToken(Struct, frozen=True, gc=False, tag=True):
    """The engine's first output token was read. Of two attempts the other one is over with that: the hands ended it."""

    at: float
    request_id: int
    hedge: bool = False  # the second attempt of two showed it


class AttemptFailed(Struct, frozen=True, gc=False, tag=True):
    """An attempt ended without a byte having reached the client; the governor retries elsewhere or settles."""

    at: float
    request_id: int
    reason: Reason
    retry_after: float = 0.0  # s, as a busy engine asked; 0: it did not say
    hedge: bool = False  # the second attempt of two; the first goes on (`hedged`: it came too late to be sent)


class PrefillFailed(Struct, frozen=True, gc=False, tag=True):
    """The engine that should compute a prompt apart did not; the hands go on with the replica alone."""

    at: float
    request_id: int
    reason: Reason
    retry_after: float = 0.0  # s, as it asked; 0: it did not say


class ReservationOutgrown(Struct, frozen=True, gc=False, tag=True):
    """The output passed its reservation (and again at each doubling); `tokens` is the output so far."""

    at: float
    request_id: int
    tokens: int


class RequestFinished(Struct, frozen=True, gc=False, tag=True):
    """A dispatched request ended. Token counts are usage's where it came, else the hands' own counts."""

    at: float
    request_id: int
    outcome: Outcome  # completed | failed | aborted | evicted
    reason: Reason
    timing: Timing
    prompt_tokens: int  # 0: not known
    output_tokens: int
    cached_tokens: int | None = None  # None: the engine did not say
    phase: Phase = Phase.NONE
    engine_rtt: float | None = None  # s, smoothed, as the kernel has it when the request ends; None: not told
    engine_retransmits: int | None = None  # segments sent again to the engine meanwhile
    client_rtt: float | None = None
    client_retransmits: int | None = None
    draft_tokens: int | None = None  # guessed for it by a draft; None: the engine did not say
    accepted_tokens: int | None = None  # of these


class ReplicaReport(Struct, frozen=True, gc=False):
    """What one replica says of itself. None means unknown, which is not zero (law 8)."""

    replica: str
    healthy: bool
    reported_at: float  # when the state was true
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None  # 0 to 1
    kv_blocks: int | None = None  # capacity
    block_size: int | None = None  # tokens
    prefix_queries: int | None = None  # tokens, since its start
    prefix_hits: int | None = None
    preemptions: int | None = None
    max_context: int | None = None
    adapters: tuple[str, ...] | None = None  # LoRA adapters that run
    adapter_slots: int | None = None  # adapters that it holds at once
    engine: EngineState | None = None  # what the governor does not need and the log keeps


class ReplicasReported(Struct, frozen=True, tag=True):
    """All replicas' reports of one tick."""

    at: float
    reports: tuple[ReplicaReport, ...]


class BudgetState(Struct, frozen=True, gc=False):
    """Where one objective of one tenant stands, and what is to be done about it."""

    tenant: str
    objective: str
    spent_ratio: float | None  # of the planned grant; None: no plan
    exhausted: bool = False  # acted on: dry-run and overrides are already applied
    health: BudgetHealth = BudgetHealth.NO_PLAN
    degrade: bool = False  # its non-critical requests are to be degraded now; acted on, as above


class Standing(Struct, frozen=True, gc=False):
    """What a tenant's last month gives or takes in [from_at, until_at), a calendar month in its zone."""

    tenant: str
    from_at: float
    until_at: float
    headroom: int = 0  # requests beyond `limits.concurrency` that it may hold
    demoted: bool = False  # queued one rank lower; the floor is already applied


class BudgetsReported(Struct, frozen=True, tag=True):
    """Once a minute, journaled: budget states and standings, which the governor cannot compute itself.

    Each report replaces the one before whole: a tenant that it does not name has neither. It carries the next month's
    standings (provisional) beside this month's, so that the first request of a month meets the right one.
    """

    at: float
    budgets: tuple[BudgetState, ...]
    standings: tuple[Standing, ...] = ()


class CapabilitiesReported(Struct, frozen=True, tag=True):
    """Once an hour, journaled: what replicas and pools have shown; each report replaces the one before whole."""

    at: float
    replicas: tuple[ReplicaSteadiness, ...]
    pools: tuple[PoolPace, ...] = ()


class CachesCleared(Struct, frozen=True, tag=True):
    """These replicas said that their prefix caches are empty, by a restart or because they were told to."""

    at: float
    replicas: tuple[str, ...]


class PolicyChanged(Struct, frozen=True, tag=True):
    """A new policy was loaded and checked; `profiles` by the names that its pools use (known ones may be left out)."""

    at: float
    policy: Policy
    profiles: dict[str, EngineProfile] = {}


class DrainStarted(Struct, frozen=True, tag=True):
    """No new requests are taken from now on; the queued are shed when `at + grace` passes (WakeAt)."""

    at: float
    grace: float = 0.0


class TimerFired(Struct, frozen=True, gc=False, tag=True):
    """The instant of the last WakeAt came."""

    at: float


Event = (
    RequestRead
    | RequestArrived
    | RequestRefused
    | RequestCancelled
    | FirstToken
    | AttemptFailed
    | PrefillFailed
    | ReservationOutgrown
    | RequestFinished
    | ReplicasReported
    | BudgetsReported
    | CapabilitiesReported
    | CachesCleared
    | PolicyChanged
    | DrainStarted
    | TimerFired
)
