"""One request of somebody else's log, in our words; what the log does not say is None or ""."""

from typing import Any

from msgspec import Struct

from plimsoll.errors import PlimsollError
from plimsoll.slo.outcome import Outcome, Reason

Cells = dict[str, Any]
"""A row as its file has it: names of columns, attributes or keys → values."""


class Visit(Struct, frozen=True, gc=False):
    """Instants in UTC epoch s (or s from the log's start), durations in s."""

    arrived_at: float
    finished_at: float
    outcome: Outcome
    reason: Reason
    ttft: float | None = None
    tpot: float | None = None
    queued_for: float | None = None
    gaps: tuple[float, ...] = ()  # between tokens, where every token's instant is known
    prompt_tokens: int = 0  # 0: not known; no request has an empty prompt
    cached_tokens: int | None = None
    output_tokens: int = 0  # 0: none came, or not known
    streaming: bool | None = None
    attempts: int = 1
    upstream_time: float | None = None
    tenant: str = ""
    tier: str = ""
    model: str = ""
    adapter: str = ""
    pool: str = ""
    replica: str = ""
    cause: str = ""
    endpoint: str = ""
    session: str = ""
    trace_id: str = ""
    request_id: str = ""


class LeftOut(PlimsollError):
    """A row that is not counted, and the rule that says so: a text without the row's own values."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)
