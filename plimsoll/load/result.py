"""What the client saw of one request: a row of the replay's own log, to be joined to the gateway's by its id."""

from enum import StrEnum

from msgspec import Struct


class Seen(StrEnum):
    """How a request ended for the client."""

    COMPLETED = "completed"  # the whole answer came
    REFUSED = "refused"  # an error status instead of an answer
    FAILED = "failed"  # the answer broke off, or ended in an error event
    UNREACHABLE = "unreachable"  # no answer began: no connection, or it closed
    TIMED_OUT = "timed_out"  # the client's own patience ended
    LEFT = "left"  # the client left as planned
    STOPPED = "stopped"  # in flight when the replay was ended
    UNSENT = "unsent"  # its time had not come when the replay was ended


class Result(Struct, frozen=True):
    """Instants are UTC epoch s on the client's clock; 0.0: did not happen. None is unknown.

    `scheduled_at` is where latencies start: what a late client adds is part of the load's truth, and told apart by
    `sent_at`.
    """

    client_request_id: str
    index: int
    tenant: str
    outcome: Seen
    scheduled_at: float
    sent_at: float = 0.0
    first_token_at: float = 0.0
    last_token_at: float = 0.0
    ended_at: float = 0.0
    status: int = 0
    reason: str = ""  # the error's code as the server gave it, or what broke
    request_id: str = ""  # the gateway's, from its header
    asked_prompt_tokens: int = 0
    asked_output_tokens: int = 0
    prompt_tokens: int | None = None  # as usage says
    output_tokens: int | None = None
    num_events: int = 0  # events that carried tokens
    retry_after: float | None = None  # s, as the server said
    gaps: tuple[float, ...] = ()  # s between successive events with tokens

    @property
    def lateness(self) -> float | None:
        """How late the client itself was, s; None where nothing was sent."""
        return self.sent_at - self.scheduled_at if self.sent_at else None

    @property
    def ttft(self) -> float | None:
        """Scheduled arrival to first token, s."""
        return self.first_token_at - self.scheduled_at if self.first_token_at else None

    @property
    def e2e(self) -> float | None:
        """Scheduled arrival to the end of a whole answer, s."""
        return self.ended_at - self.scheduled_at if self.outcome is Seen.COMPLETED else None
