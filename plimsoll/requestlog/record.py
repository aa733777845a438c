"""One row a request: the columns of `requests.parquet`, in order. Additive only: new columns go to the end.

Seconds as floats; instants are UTC epoch seconds. None is "unknown", which is never zero (law 8).
"""

from typing import Final

from msgspec import Struct

from plimsoll.slo.outcome import Outcome, Phase, Reason
from plimsoll.slo.sli import Charge, Verdict
from plimsoll.slo.timing import ItlSketch

SCHEMA_VERSION: Final = 1


class Record(Struct, frozen=True, array_like=True, gc=False):
    """What happened to one request, judged and charged."""

    request_id: int
    client_request_id: str
    trace_id: str
    session: str
    tenant: str
    tier: str
    tier_served: str
    model: str
    adapter: str
    precision: str
    pool: str
    replica: str
    region: str
    cause: str
    criticality: str
    endpoint: str
    streaming: bool
    deadline: float | None
    arrived_at: float
    dispatched_at: float | None
    first_token_at: float | None
    finished_at: float
    upstream_time: float | None
    upstream_trust: str
    queued_for: float | None  # without `plugin_time`; None: a log of others that does not say
    ttft: float | None
    tpot: float | None
    e2e: float | None
    itl_max: float | None
    itl_sketches: tuple[ItlSketch, ItlSketch, ItlSketch] | None
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    outcome: Outcome
    phase: Phase
    reason: Reason
    degraded: str
    client_stall: float
    baseline: float | None
    baseline_from: str
    upstream_baseline: float | None
    kv_blocks_reserved: int
    kv_blocks_used: int
    attempts: int
    verdicts: tuple[Verdict, ...]
    charge: Charge | None
    policy_version: str
    report_running: int | None
    report_waiting: int | None
    report_kv_usage: float | None
    report_age: float | None
    parent_span_id: str = ""
    prompt_entropy: float | None = None  # bits a byte of the prompt that repetition leaves
    engine_rtt: float | None = None  # s, smoothed, of the connection to the engine at the request's end
    engine_retransmits: int | None = None  # segments sent again on it during the request
    client_rtt: float | None = None
    client_retransmits: int | None = None
    hedge: str = ""  # "": one attempt at a time; else what became of a second one
    # beside the first: "won", "lost", "failed", or "asked" where all ended before either showed a token
    prefill: str = ""  # the engine that computed the prompt for the replica; "": the replica itself
    plugin_time: float | None = None  # s that plugins took before it was decided upon; None: none were asked
    plugins: str = ""  # what each of them said: "guard:allow,topic:dropped"; else deny, error, timeout, busy
    cached_expected: int | None = None  # prompt tokens that its replica was thought to hold; None: nothing was known
    cached_from: str = ""  # by what was "sent" there, or exactly, by its KV "events"; "": as above
    predicted_ttft: float | None = None  # s from `dispatched_at` to the first token, as foreseen there
    predicted_tpot: float | None = None  # … and a token after it; None: routing does not predict


def format_request_id(request_id: int) -> str:
    """The id as people and headers see it: `req-` and 16 hex digits."""
    return f"req-{request_id:016x}"
