"""How a request can end, and every reason for a decision: one table, one file.

The name of a reason is the log field, the metric label, the HTTP status row and the heading in docs/reasons.md
(a test walks the enum through all four).
"""

from enum import StrEnum
from typing import Final, NamedTuple


class Outcome(StrEnum):
    """The nine ways to end (law 1). The first four never reached an engine."""

    REJECTED = "rejected"  # refused on arrival
    SHED = "shed"  # taken from the queue by us
    EXPIRED = "expired"  # left the queue by deadline
    CANCELLED = "cancelled"  # client left while queued
    COMPLETED = "completed"
    FAILED = "failed"  # engine or transport
    ABORTED = "aborted"  # client left after dispatch
    EVICTED = "evicted"  # ended by us after dispatch
    INTERRUPTED = "interrupted"  # the gateway died; found at recovery


class Blame(StrEnum):
    """Who a bad ending is held against; decides whether it is judged (DESIGN, "Objectives")."""

    NONE = "none"  # nothing bad happened
    OURS = "ours"  # we were full, failed, or decided so: bad
    CLIENT = "client"  # the request itself was wrong: excluded
    TENANT = "tenant"  # the tenant's own limits: excluded
    LEFT = "left"  # the client went away: censored or bad by threshold


class Reason(StrEnum):
    """Why a decision fell as it did."""

    # dispatch
    FITS = "fits"  # a replica had room when it came
    FLOOR = "floor"  # taken into the tier's own reserved share
    LENT = "lent"  # taken into another tier's idle share
    RANK = "rank"  # highest rank among those waiting
    TRICKLE = "trickle"  # a lower tier's earned turn
    BYPASS = "bypass"  # fitted where an older, larger one does not yet
    PREFERRED = "preferred"  # due earlier, or its prompt is held there: the order's choice within its bound
    HEDGED = "hedged"  # a second replica is asked: the first shows no token for unusually long
    RETRIED = "retried"  # sent again after a failed attempt without a byte to the client
    # wait
    POOL_FULL = "pool_full"  # every replica that may take it is full
    SATURATED = "saturated"  # the pool is at its line
    # reject: the request
    BAD_REQUEST = "bad_request"
    UNKNOWN_KEY = "unknown_key"
    FORBIDDEN_TIER = "forbidden_tier"
    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_ENDPOINT = "unknown_endpoint"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TOO_LARGE = "body_too_large"
    HEADERS_TOO_LARGE = "headers_too_large"
    REQUEST_TIMEOUT = "request_timeout"
    PROMPT_TOO_LONG = "prompt_too_long"
    LABEL_REQUIRED = "label_required"
    PLUGIN_DENIED = "plugin_denied"  # a plugin of the policy does not let it pass
    # reject: the tenant's own limits
    TENANT_CONCURRENCY = "tenant_concurrency"
    TENANT_RATE = "tenant_rate"
    TENANT_TOKENS = "tenant_tokens"
    TENANT_QUEUE = "tenant_queue"
    # reject or shed: ours
    QUEUE_FULL = "queue_full"
    NO_REPLICA = "no_replica"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    DRAINING = "draining"
    OVERLOAD = "overload"
    ADMISSION_RULE = "admission_rule"  # another package's rule, named by the policy, says no
    PLUGIN_FAILED = "plugin_failed"  # a plugin that must be asked cannot answer (`on_error: refuse`)
    BUDGET_SPENT = "budget_spent"
    STORAGE_FULL = "storage_full"
    # expire
    QUEUE_TIMEOUT = "queue_timeout"
    DEADLINE = "deadline"
    # after dispatch
    DONE = "done"
    ENGINE_REFUSED = "engine_refused"  # the engine answered 4xx: the request's own fault
    ENGINE_BUSY = "engine_busy"  # 429 or 503 from every engine tried
    ENGINE_ERROR = "engine_error"  # 5xx
    CONNECT_FAILED = "connect_failed"
    CONNECTION_LOST = "connection_lost"
    BAD_UPSTREAM = "bad_upstream"  # what came is not HTTP, or not the framing it announced
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CLIENT_LEFT = "client_left"
    SLOW_CLIENT = "slow_client"  # took no bytes for longer than the policy allows
    DRAIN_TIMEOUT = "drain_timeout"
    INTERNAL_ERROR = "internal_error"  # a fault of the gateway itself, at any moment
    GATEWAY_DIED = "gateway_died"


class ReasonRow(NamedTuple):
    """What a reason means outside the governor: HTTP status (0: never sent), blame, OpenAI error type, words."""

    status: int
    blame: Blame
    error_type: str
    text: str


_BAD, _AUTH, _RATE, _OURS = "invalid_request_error", "authentication_error", "rate_limit_error", "server_error"

REASONS: Final[dict[Reason, ReasonRow]] = {
    Reason.FITS: ReasonRow(0, Blame.NONE, "", "a replica had room at once"),
    Reason.FLOOR: ReasonRow(0, Blame.NONE, "", "dispatched within the tier's own floor"),
    Reason.LENT: ReasonRow(0, Blame.NONE, "", "dispatched into another tier's idle floor"),
    Reason.RANK: ReasonRow(0, Blame.NONE, "", "highest rank among the waiting"),
    Reason.TRICKLE: ReasonRow(0, Blame.NONE, "", "a lower tier's earned turn"),
    Reason.BYPASS: ReasonRow(0, Blame.NONE, "", "fitted while an older, larger request waits for room"),
    Reason.PREFERRED: ReasonRow(0, Blame.NONE, "", "due earlier or its prompt is held there"),
    Reason.HEDGED: ReasonRow(0, Blame.NONE, "", "a second replica is asked, since the first is unusually late"),
    Reason.RETRIED: ReasonRow(0, Blame.NONE, "", "sent to another replica after a failed attempt"),
    Reason.POOL_FULL: ReasonRow(0, Blame.NONE, "", "every replica that may take it is full"),
    Reason.SATURATED: ReasonRow(0, Blame.NONE, "", "the pool is at its line"),
    Reason.BAD_REQUEST: ReasonRow(400, Blame.CLIENT, _BAD, "the request is not valid"),
    Reason.UNKNOWN_KEY: ReasonRow(401, Blame.CLIENT, _AUTH, "the API key is missing or not known"),
    Reason.FORBIDDEN_TIER: ReasonRow(403, Blame.CLIENT, _BAD, "this tenant may not ask for that tier"),
    Reason.UNKNOWN_MODEL: ReasonRow(404, Blame.CLIENT, _BAD, "no pool serves that model"),
    Reason.UNKNOWN_ENDPOINT: ReasonRow(404, Blame.CLIENT, _BAD, "no such endpoint"),
    Reason.METHOD_NOT_ALLOWED: ReasonRow(405, Blame.CLIENT, _BAD, "that method is not allowed here"),
    Reason.BODY_TOO_LARGE: ReasonRow(413, Blame.CLIENT, _BAD, "the body is larger than the limit"),
    Reason.HEADERS_TOO_LARGE: ReasonRow(431, Blame.CLIENT, _BAD, "the headers are larger than the limit"),
    Reason.REQUEST_TIMEOUT: ReasonRow(408, Blame.CLIENT, _BAD, "the request did not arrive whole in time"),
    Reason.PROMPT_TOO_LONG: ReasonRow(400, Blame.CLIENT, _BAD, "the prompt exceeds every pool's context"),
    Reason.LABEL_REQUIRED: ReasonRow(400, Blame.CLIENT, _BAD, "this tenant's requests must carry a cause"),
    Reason.PLUGIN_DENIED: ReasonRow(400, Blame.CLIENT, _BAD, "a check of this service does not let it pass"),
    Reason.TENANT_CONCURRENCY: ReasonRow(429, Blame.TENANT, _RATE, "the tenant's concurrency limit is reached"),
    Reason.TENANT_RATE: ReasonRow(429, Blame.TENANT, _RATE, "the tenant's request rate limit is reached"),
    Reason.TENANT_TOKENS: ReasonRow(429, Blame.TENANT, _RATE, "the tenant's token rate limit is reached"),
    Reason.TENANT_QUEUE: ReasonRow(429, Blame.TENANT, _RATE, "the tenant's limit of waiting requests is reached"),
    Reason.QUEUE_FULL: ReasonRow(503, Blame.OURS, _OURS, "the queue is full"),
    Reason.NO_REPLICA: ReasonRow(503, Blame.OURS, _OURS, "no replica of that model is up"),
    Reason.TOO_MANY_CONNECTIONS: ReasonRow(503, Blame.OURS, _OURS, "too many connections are open"),
    Reason.DRAINING: ReasonRow(503, Blame.OURS, _OURS, "this gateway is shutting down"),
    Reason.OVERLOAD: ReasonRow(503, Blame.OURS, _OURS, "shed under overload"),
    Reason.ADMISSION_RULE: ReasonRow(429, Blame.OURS, _RATE, "the service's own admission rule refuses it"),
    Reason.PLUGIN_FAILED: ReasonRow(503, Blame.OURS, _OURS, "a check that this service demands cannot be made now"),
    Reason.BUDGET_SPENT: ReasonRow(429, Blame.OURS, _RATE, "the tenant's error budget is spent"),
    Reason.STORAGE_FULL: ReasonRow(503, Blame.OURS, _OURS, "the journal has no room left"),
    Reason.QUEUE_TIMEOUT: ReasonRow(503, Blame.OURS, _OURS, "waited in the queue for as long as the policy allows"),
    Reason.DEADLINE: ReasonRow(504, Blame.OURS, _OURS, "the request's deadline passed in the queue"),
    Reason.DONE: ReasonRow(200, Blame.NONE, "", "answered"),
    Reason.ENGINE_REFUSED: ReasonRow(0, Blame.CLIENT, _BAD, "the engine refused the request"),
    Reason.ENGINE_BUSY: ReasonRow(503, Blame.OURS, _OURS, "every engine tried is busy"),
    Reason.ENGINE_ERROR: ReasonRow(502, Blame.OURS, _OURS, "the engine failed"),
    Reason.CONNECT_FAILED: ReasonRow(502, Blame.OURS, _OURS, "no connection to the engine"),
    Reason.CONNECTION_LOST: ReasonRow(502, Blame.OURS, _OURS, "the engine's connection broke"),
    Reason.BAD_UPSTREAM: ReasonRow(502, Blame.OURS, _OURS, "the engine's answer is malformed"),
    Reason.FIRST_BYTE_TIMEOUT: ReasonRow(504, Blame.OURS, _OURS, "the engine did not begin to answer in time"),
    Reason.IDLE_TIMEOUT: ReasonRow(504, Blame.OURS, _OURS, "the engine fell silent"),
    Reason.TOTAL_TIMEOUT: ReasonRow(504, Blame.OURS, _OURS, "the answer took longer than the policy allows"),
    Reason.CLIENT_LEFT: ReasonRow(499, Blame.LEFT, _BAD, "the client went away"),
    Reason.SLOW_CLIENT: ReasonRow(499, Blame.LEFT, _BAD, "the client stopped reading"),
    Reason.DRAIN_TIMEOUT: ReasonRow(503, Blame.OURS, _OURS, "ended because the gateway shut down"),
    Reason.INTERNAL_ERROR: ReasonRow(500, Blame.OURS, _OURS, "the gateway itself failed; its log says how"),
    Reason.GATEWAY_DIED: ReasonRow(0, Blame.OURS, _OURS, "the gateway died while the request was open"),
}
"""Every reason has a row; statuses marked 499 are logged, never sent (the client is gone)."""


class Phase(StrEnum):
    """Where in its life a cancel, timeout or failure struck a request."""

    NONE = ""
    ARRIVAL = "arrival"  # before a decision
    QUEUE = "queue"
    CONNECT = "connect"
    PREFILL = "prefill"  # sent to the engine, no token yet
    DECODE = "decode"  # between first and last token
