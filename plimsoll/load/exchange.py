"""One request and its answer as the client sees them; turned into a Result when it is over."""

import asyncio
import itertools

from plimsoll.load.events import EventReader, error_code
from plimsoll.load.plan import Planned
from plimsoll.load.result import Result, Seen

MAX_ERROR_BODY = 1 << 16  # bytes kept of an answer that is no stream


class Exchange:
    """Filled in by its connection; `over` is set once, when the answer ended or broke."""

    def __init__(self, planned: Planned, tenant: str, client_request_id: str, scheduled_at: float) -> None:
        self.planned, self.tenant = planned, tenant
        self.client_request_id, self.scheduled_at = client_request_id, scheduled_at
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent_at = self.ended_at = 0.0
        self.status = 0
        self._request_id = ""
        self._retry_after: float | None = None
        self._streamed = False
        self._reader = EventReader()
        self._body = b""
        self._broken = ""

    def head(self, status: int, headers: dict[bytes, bytes]) -> None:
        """The answer's status and headers (names in lower case) have come."""
        self.status = status
        self._streamed = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        self._request_id = headers.get(b"x-plimsoll-request-id", b"").decode("latin-1")
        after = headers.get(b"retry-after", b"")
        self._retry_after = float(after) if after.isdigit() else None

    def body(self, piece: bytes, at: float) -> None:
        """A piece of the body was read at `at`."""
        if self._streamed:
            self._reader.feed(piece, at)
        elif len(self._body) < MAX_ERROR_BODY:
            self._body += piece

    def ended(self, at: float) -> None:
        """The answer is whole as HTTP sees it."""
        self.ended_at = at
        if not self.over.done():
            self.over.set_result(None)

    def broke(self, why: str, at: float) -> None:
        """The connection closed, or what came is not HTTP."""
        self._broken = why
        self.ended(at)

    def result(self, given_up: Seen | None = None) -> Result:
        """What the client saw. `given_up` names why the client itself ended it, if it did."""
        reader = self._reader
        if not self._streamed and self.status == 200:
            reader.usage(self._body)
        times = reader.token_at
        return Result(
            client_request_id=self.client_request_id,
            index=self.planned.index,
            tenant=self.tenant,
            outcome=given_up or self._outcome(),
            scheduled_at=self.scheduled_at,
            sent_at=self.sent_at,
            first_token_at=times[0] if times else 0.0,
            last_token_at=times[-1] if times else 0.0,
            ended_at=self.ended_at,
            status=self.status,
            reason="" if given_up else self._reason(),
            request_id=self._request_id,
            asked_prompt_tokens=self.planned.prompt_tokens,
            asked_output_tokens=self.planned.output_tokens,
            prompt_tokens=reader.prompt_tokens,
            output_tokens=reader.output_tokens,
            num_events=len(times),
            retry_after=self._retry_after,
            gaps=tuple(later - earlier for earlier, later in itertools.pairwise(times)),
        )

    def _outcome(self) -> Seen:
        if not self.status:
            return Seen.UNREACHABLE
        if self.status != 200:
            return Seen.REFUSED
        whole = self._reader.done if self._streamed else not self._broken
        return Seen.COMPLETED if whole and not self._reader.error else Seen.FAILED

    def _reason(self) -> str:
        if self._reader.error:
            return self._reader.error
        if self.status not in {0, 200}:
            return error_code(self._body)
        ended_early = self._streamed and not self._reader.done and self.ended_at > 0
        return self._broken or ("no end of stream" if ended_early else "")
