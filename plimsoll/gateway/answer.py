"""One answer on its way to one client: head, body pieces in the framing that fits this client, end."""

from plimsoll.gateway.hands import NO_PATH, Answer, ClientRequest, Path
from plimsoll.gateway.headers import framing_lines, own_head


class Client:
    """The client's connection, as an exchange sees it. A class, not a Protocol: calls on it are paid per event."""

    keep_alive: bool  # whether another request may follow this one
    paused: bool  # more bytes wait for the client than the policy allows

    def write(self, data: bytes) -> None:
        """Send; does nothing once the client is gone."""
        raise NotImplementedError

    def date(self) -> bytes:
        """The Date line of now."""
        raise NotImplementedError

    def path(self) -> Path:
        """How the way to the client was for the request that now ends."""
        return NO_PATH

    def over(self) -> None:
        """The answer is complete: the next request may be read, or the connection closed."""
        raise NotImplementedError

    def break_off(self, *, hard: bool) -> None:
        """Close in the middle of an answer; `hard` (a reset) where an orderly close would look like its end."""
        raise NotImplementedError


class AnswerWriter:
    """Frames what is passed on. The head waits for the first body bytes, so that a retry stays possible till then."""

    __slots__ = ("_chunked", "_client", "_head", "_version", "length", "started")

    def __init__(self, client: Client, version: bytes) -> None:
        self._client = client
        self._version = version
        self._head = b""
        self._chunked = False
        self.length: int | None = None  # announced, bytes
        self.started = False  # whether the client has been sent anything

    def begin(self, head: bytes, *, length: int | None, has_body: bool) -> None:
        """The head is known (without framing and blank line). `length` None: the body's end is not known yet."""
        client = self._client
        self.length = length
        self._chunked = has_body and length is None and self._version != b"1.0"
        if has_body and length is None and not self._chunked:
            client.keep_alive = False  # only closing can end this body
        self._head = head + framing_lines(
            length=length, chunked=self._chunked, keep_alive=client.keep_alive, version=self._version
        )

    def interim(self, head: bytes) -> None:
        """Send a 1xx head (without the blank line) before it all, to clients that know such (RFC 9110 section 15.2)."""
        if not self.started and self._version == b"1.1":
            self._client.write(head + b"\r\n")

    @property
    def ends_by_closing(self) -> bool:
        """Whether an orderly close would look like the end of the answer."""
        return self.started and not self._chunked and self.length is None

    def pass_on(self, body: bytes) -> None:
        """Send body bytes (not empty), after the head if that still waits."""
        if self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body)
        if self.started:  # as `_send` does: this is paid per event
            self._client.write(body)
        else:
            self._send(body)

    def end(self, body: bytes) -> None:
        """Send the last body bytes, which may be none, and the end."""
        if self._chunked:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        if body or not self.started:
            self._send(body)

    def _send(self, data: bytes) -> None:
        if self.started:
            self._client.write(data)
            return
        self.started = True
        head, self._head = self._head, b""
        self._client.write(head + data)


def respond(client: Client, request: ClientRequest, answer: Answer) -> None:
    """Send a whole answer of our own."""
    head = own_head(answer.status, answer.headers, client.date()) + framing_lines(
        length=None if answer.status in (204, 304) else len(answer.body),
        chunked=False,
        keep_alive=client.keep_alive,
        version=request.version,
    )
    client.write(head if request.method == b"HEAD" else head + answer.body)
