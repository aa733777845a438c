"""h11 as oracle, on generated and cut-up traffic, both ways: what we accept, h11 accepts and reads the same; what is
well-formed, we accept."""

import re
from dataclasses import dataclass, field

import h11
from hypothesis import assume, example, given
from hypothesis import strategies as st

from plimsoll.gateway.enginehead import AnswerHead
from plimsoll.gateway.reader import RequestReader, Step
from plimsoll.gateway.upstream import UpstreamConnection
from plimsoll.slo.outcome import Reason

Message = tuple[bytes, bytes, list[tuple[bytes, bytes]], bytes]


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """Split at these places."""
    places = sorted({place % (len(data) + 1) for place in at})
    return [data[i:j] for i, j in zip([0, *places], [*places, len(data)], strict=True) if i < j]


# --- requests ---

token = st.text("abcXYZ-_09!#$%&'*+.^`|~", min_size=1, max_size=6).map(str.encode)
value = st.text('abc xyz\t,;="()é', max_size=10).map(lambda text: text.strip().encode("latin-1"))
RESERVED = (b"host", b"content-length", b"transfer-encoding", b"connection", b"expect", b"upgrade")
fields = st.lists(st.tuples(token, value).filter(lambda f: f[0].lower() not in RESERVED), max_size=4)
bodies = st.one_of(st.binary(max_size=40), st.sampled_from([b"\r\n\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]))


def chunked(body: bytes, sizes: list[int], extension: bytes, trailers: list[tuple[bytes, bytes]]) -> bytes:
    """A body in chunks of these sizes, in turn."""
    out, start, turn = b"", 0, 0
    while start < len(body):
        piece = body[start : start + sizes[turn % len(sizes)]]
        out += b"%x%b\r\n%b\r\n" % (len(piece), extension, piece)
        start, turn = start + len(piece), turn + 1
    return out + b"0\r\n" + b"".join(b"%b: %b\r\n" % field for field in trailers) + b"\r\n"


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """(framing fields, body on the wire)."""
    body = draw(bodies)
    kind = draw(st.sampled_from(["none", "length", "chunked"]))
    if kind == "none":
        return b"", b""
    if kind == "length":
        return b"Content-Length: %d\r\n" % len(body), body
    sizes = draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    extension = draw(st.sampled_from([b"", b";a", b";a=b", b';a="b c"']))
    return b"Transfer-Encoding: chunked\r\n", chunked(body, sizes, extension, draw(fields))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One well-formed request."""
    framing, body = draw(framed())
    method = draw(st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH"]))
    target = b"/" + draw(st.text("abc/?&=%20~.-_", max_size=10)).encode()
    lines = b"".join(
        b"%b:%b%b\r\n" % (name, draw(st.sampled_from([b"", b" ", b"  \t"])), v) for name, v in draw(fields)
    )
    connection = draw(st.sampled_from([b"", b"Connection: keep-alive\r\n", b"Connection: Close\r\n"]))
    return b"%b %b HTTP/1.1\r\nHost: a\r\n%b%b%b\r\n%b" % (method, target, lines, connection, framing, body)


def read_with_h11(data: bytes) -> tuple[list[Message], bool]:
    """Every whole request, and whether h11 refused to go on. Empty lines before a request are not shown to h11, which
    refuses them: RFC 9112 section 2.2 wants them ignored."""
    messages: list[Message] = []
    while True:
        while data.startswith(b"\r\n"):
            data = data[2:]
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        connection.receive_data(data)
        try:
            message = read_one(connection)
        except h11.RemoteProtocolError:
            return messages, True
        if message is None:
            return messages, False
        messages.append(message)
        if connection.their_state is h11.MUST_CLOSE:
            return messages, False
        data = connection.trailing_data[0]


def read_one(connection: h11.Connection) -> Message | None:
    """The next whole request; None where there is none."""
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return head.method, head.target, list(head.headers), body
        else:
            return None


def read_with_ours(parts: list[bytes]) -> tuple[list[Message], bool]:
    """The same by the reader under test."""
    reader = RequestReader("", 1 << 16, 1 << 20)
    messages: list[Message] = []
    for part in parts:
        reader.receive(part, 1.0)
        while (step := reader.step()) is not Step.NEED:
            if step is Step.FAULT:
                return messages, True
            if step is Step.WHOLE:
                request = reader.request
                messages.append((request.method, request.target, request.headers, request.body))
                if not reader.keep_alive:
                    return messages, False
    return messages, False


@given(st.lists(requests(), min_size=1, max_size=3), st.lists(st.integers(0, 1000), max_size=8))
def test_well_formed_requests_are_read_as_h11_reads_them(sent: list[bytes], at: list[int]) -> None:
    data = b"".join(sent)
    theirs, refused = read_with_h11(data)
    assert not refused
    ours, fault = read_with_ours(cut(data, at))
    assert not fault
    assert ours == theirs


NASTY = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"\0",
        b":",
        b",",
        b"0",
        b"1",
        b"\x0b",
        b"\x7f",
        b"\xff",
        b"+",
        b"-",
        b";",
        b"#",
    ),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n", b"chunked", b"x", b"HTTP/1.0", b"Host: c\r\n"),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"\r\n\r\n", b"0\r\n\r\n"),
    b"GET / HTTP/1.1\r\nHost: b\r\n\r\n",
]
edits = st.lists(
    st.tuples(st.sampled_from(["insert", "delete", "replace"]), st.integers(0, 400), st.sampled_from(NASTY)),
    min_size=1,
    max_size=3,
)


def edited(data: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    """`data` after these changes."""
    for kind, place, what in changes:
        at = place % (len(data) + 1)
        if kind == "insert":
            data = data[:at] + what + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(what) :]
        else:
            data = data[:at] + what + data[at + len(what) :]
    return data


@given(st.lists(requests(), min_size=1, max_size=2), edits, st.lists(st.integers(0, 1000), max_size=4))
@example([b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"], [("insert", 3, b" ")], [])
@example(
    [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na"],
    [("insert", 17, b"Transfer-Encoding: chunked\r\n")],
    [],
)
def test_nothing_is_accepted_that_h11_refuses_or_reads_otherwise(
    sent: list[bytes], changes: list[tuple[str, int, bytes]], at: list[int]
) -> None:
    data = edited(b"".join(sent), changes)
    ours, _ = read_with_ours(cut(data, at))
    theirs, _ = read_with_h11(data)
    assert ours == theirs[: len(ours)], "a request that h11 does not see, or sees with another body, is smuggled"


@given(st.lists(requests(), min_size=1, max_size=2), edits, st.lists(st.integers(0, 1000), max_size=8))
def test_cuts_change_nothing(sent: list[bytes], changes: list[tuple[str, int, bytes]], at: list[int]) -> None:
    data = edited(b"".join(sent), changes)
    whole, _ = read_with_ours([data])
    pieces, _ = read_with_ours(cut(data, at))
    assert whole == pieces


# --- answers ---


class Transport:
    """Stands for a socket that is never written to nor closed by itself."""

    closed = False

    def get_extra_info(self, _name: str) -> None:
        return None

    def write(self, _data: bytes) -> None:
        pass

    def abort(self) -> None:
        self.closed = True


@dataclass
class Receiver:
    """Collects one answer."""

    head: AnswerHead | None = None
    body: bytes = b""
    complete: bool = False
    failed: Reason | None = None
    interims: list[int] = field(default_factory=list)

    def interim(self, head: AnswerHead) -> None:
        self.interims.append(head.status)

    def received(self, upstream: UpstreamConnection, body: bytes) -> None:
        self.head = upstream.head
        self.body += body
        self.complete = self.complete or upstream.complete

    def lost(self, upstream: UpstreamConnection, reason: Reason) -> None:
        self.failed = reason


class NoPool:
    def put(self, upstream: UpstreamConnection) -> None:
        pass

    def forget(self, upstream: UpstreamConnection) -> None:
        pass


def answer_by_ours(parts: list[bytes], method: bytes, eof: bool) -> Receiver:
    """What the engine's connection makes of these bytes, followed by its end if `eof`."""
    upstream, transport, receiver = UpstreamConnection(NoPool()), Transport(), Receiver()
    upstream.connection_made(transport)  # type: ignore[arg-type]
    upstream.send(receiver, b"", b"", head_only=method == b"HEAD")
    for part in parts:
        if transport.closed or receiver.complete:
            break
        upstream.data_received(part)
    if eof and not receiver.complete and not transport.closed:
        upstream.connection_lost(None)
    return receiver


def answer_by_h11(data: bytes, method: bytes, eof: bool) -> tuple[h11.Response | None, bytes, bool, bool]:
    """(head, body, complete, refused) by h11."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method=method, target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    head, body = None, b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return head, body, True, False
            elif event is h11.NEED_DATA and eof:
                connection.receive_data(b"")
                eof = False
            elif not isinstance(event, h11.InformationalResponse):
                return head, body, False, False
    except h11.RemoteProtocolError:
        return head, body, False, True


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """One well-formed answer, interim ones before it."""
    framing, body = draw(framed())
    status = draw(
        st.sampled_from([b"200 OK", b"404 Not Found", b"204 No Content", b"304 Not Modified", b"500 Oh", b"299 "])
    )
    lines = b"".join(b"%b: %b\r\n" % f for f in draw(fields))
    early = draw(st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n"]))
    if status[:3] in (b"204", b"304"):
        framing, body = draw(st.sampled_from([b"", b"Content-Length: 9\r\n"])) if status[:1] == b"3" else b"", b""
    return early + b"HTTP/1.1 %b\r\n%b%b\r\n%b" % (status, lines, framing, body)


ODD_PHRASE = re.compile(rb"HTTP/1\.[01] \d\d\d [^\r\n]*[^\t\x20-\x7e\x80-\xff\r\n]")
methods = st.sampled_from([b"GET", b"POST"])


@given(answers(), methods, st.lists(st.integers(0, 400), max_size=8), st.booleans())
def test_well_formed_answers_are_read_as_h11_reads_them(data: bytes, method: bytes, at: list[int], eof: bool) -> None:
    head, body, complete, refused = answer_by_h11(data, method, eof)
    assert not refused
    ours = answer_by_ours(cut(data, at), method, eof)
    assert (ours.body, ours.complete) == (body, complete)
    assert head is not None
    assert ours.head is not None or not complete
    if ours.head is not None:
        assert ours.head.status == head.status_code


@given(answers(), edits, methods, st.lists(st.integers(0, 400), max_size=4), st.booleans())
def test_no_answer_is_completed_that_h11_reads_otherwise(
    data: bytes, changes: list[tuple[str, int, bytes]], method: bytes, at: list[int], eof: bool
) -> None:
    data = edited(data, changes)
    assume(b"\r\n\r\n\r\nHTTP" not in data)  # an empty line behind an interim answer: llhttp skips it, harmlessly
    assume(not ODD_PHRASE.search(data))  # reason phrases are not passed on
    ours = answer_by_ours(cut(data, at), method, eof)
    if not ours.complete:
        return
    head, body, complete, _ = answer_by_h11(data, method, eof)
    assert head is not None
    assert ours.head is not None
    assert (ours.head.status, ours.body, True) == (head.status_code, body, complete)
