"""Requests are read strictly: what two parsers could read differently is refused."""

import pytest

from plimsoll.gateway.reader import ASK_FIRST, RequestReader, Step
from plimsoll.slo.outcome import Reason

HOST = b"Host: a\r\n"
POST = b"POST /v1/x HTTP/1.1\r\n" + HOST


def read(data: bytes, size: int = 1 << 20, **limits: int) -> tuple[list[Step], RequestReader]:
    """Feed `data` in pieces; returns every step but NEED, until a fault."""
    reader = RequestReader("", limits.get("max_headers", 65536), limits.get("max_body", 1 << 20))
    steps: list[Step] = []
    for start in range(0, len(data), size):
        reader.receive(data[start : start + size], 1.0 + start)
        while (step := reader.step()) is not Step.NEED:
            steps.append(step)
            if step is Step.FAULT:
                return steps, reader
    return steps, reader


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSED = {
    "both lengths": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, other order": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "two equal lengths": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "negative length": POST + b"Content-Length: -3\r\n\r\nabc",
    "empty length": POST + b"Content-Length:\r\n\r\n",
    "hex length": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "overflowing length": POST + b"Content-Length: 18446744073709551617\r\n\r\na",
    "unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n",
    "coding before chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding after chunked": POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "nearly chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "folded chunked": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF in fields": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare CR": b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    "folded field": POST + b"X: a\r\n b\r\n\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "tab before colon": b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 3\r\n\r\nabc",
    "space before the first field": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "no colon": POST + b"Xabc\r\n\r\n",
    "empty name": POST + b": a\r\n\r\n",
    "NUL in a value": POST + b"X: a\0b\r\n\r\n",
    "NUL in a name": POST + b"X\0: a\r\n\r\n",
    "control in a value": POST + b"X: a\x01b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "another protocol": b"GET / RTSP/1.0\r\nHost: a\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "control in the target": b"GET /a\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "relative target": b"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
    "star for GET": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "lower-case method": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00",
    "length in trailers": CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
    "chunk size": CHUNKED + b"3x\r\nabc\r\n0\r\n\r\n",
    "chunk size with space": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "chunk size signed": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "chunk size prefixed": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "chunk size empty": CHUNKED + b"\r\nabc\r\n0\r\n\r\n",
    "chunk size overflowing": CHUNKED + b"ffffffffffffffff1\r\nabc\r\n",
    "chunk ends in LF": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "chunk data too long": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "chunk data ends in LF": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "extension with LF": CHUNKED + b"3;a\nabc\r\n0\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, size: int) -> None:
    steps, reader = read(REFUSED[name], size)
    assert steps[-1:] == [Step.FAULT]
    assert Step.WHOLE not in steps
    wanted = Reason.BODY_TOO_LARGE if name == "overflowing length" else Reason.BAD_REQUEST
    assert reader.fault in (wanted, Reason.BAD_REQUEST)
    assert not reader.keep_alive


ACCEPTED = {
    "plain": (POST + b"Content-Length: 3\r\n\r\nabc", b"abc"),
    "trailing space of a length": (POST + b"Content-Length: 3 \r\n\r\nabc", b"abc"),
    "chunked": (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
    "chunked in capitals": (POST + b"Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc"),
    "extensions": (CHUNKED + b'3;a=b;c="d"\r\nabc\r\n0\r\n\r\n', b"abc"),
    "trailers": (CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Other: 9\r\n\r\n", b"abc"),
    "blank lines inside": (CHUNKED + b"8\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n" * 4),
    "h2c offered": (
        POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n"
        b"Content-Length: 3\r\n\r\nabc",
        b"abc",
    ),
    "h2c offered, chunked": (
        POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"abc",
    ),
    "blank line first": (b"\r\n" + POST + b"\r\n", b""),
    "empty chunked": (CHUNKED + b"0\r\n\r\n", b""),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_and_what_follows_is_left_alone(name: str, size: int) -> None:
    data, body = ACCEPTED[name]
    steps, reader = read(data, size)
    assert steps[-1] is Step.WHOLE
    assert reader.request.body == body
    assert (reader.buffered, reader.started_at) == (0, 0.0)
    steps, reader = read(data + b"GET /next HTTP/1.1\r\nHost: b\r\nX-Next: 1\r\n\r\n", size)
    assert steps.count(Step.WHOLE) == 2
    assert (reader.request.target, reader.request.body) == (b"/next", b"")


def test_fields_are_lower_case_and_repeated_ones_joined() -> None:
    _, reader = read(POST + b"X-A: 1\r\nx-a:  2 \r\nAuthorization: Bearer k\r\n\r\n")
    assert reader.request.headers == [(b"host", b"a"), (b"x-a", b"1"), (b"x-a", b"2"), (b"authorization", b"Bearer k")]
    assert reader.request.header(b"x-a") == b"1, 2"
    assert reader.request.header(b"x-b") == b""


@pytest.mark.parametrize(
    ("target", "kept"),
    [(b"http://a/x?y=1", b"/x?y=1"), (b"HTTPS://a:8/x", b"/x"), (b"http://a", b"/"), (b"http://a?x", b"/?x")],
)
def test_absolute_targets_are_cut_to_their_path(target: bytes, kept: bytes) -> None:
    _, reader = read(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
    assert reader.request.target == kept


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: X, Close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", True),
    ],
)
def test_keep_alive(head: bytes, keep: bool) -> None:
    assert read(head)[1].keep_alive is keep


def test_limits() -> None:
    def fault(data: bytes, size: int = 1 << 20) -> Reason:
        steps, reader = read(data, size, max_headers=1000, max_body=100)
        assert steps[-1] is Step.FAULT
        return reader.fault

    for size in (10, 1 << 20):
        assert fault(POST + b"X: " + b"a" * 1000 + b"\r\n\r\n", size) is Reason.HEADERS_TOO_LARGE
        assert fault(POST + b"X: a\r\n" * 400, size) is Reason.HEADERS_TOO_LARGE
        assert fault(POST + b"Content-Length: 101\r\n\r\n", size) is Reason.BODY_TOO_LARGE
        assert fault(CHUNKED + b"65\r\n" + b"a" * 101 + b"\r\n0\r\n\r\n", size) is Reason.BODY_TOO_LARGE
        assert fault(CHUNKED + b"1;" + b"a" * 3000 + b"\r\n", size) is Reason.BAD_REQUEST
        assert fault(CHUNKED + b"0\r\n" + b"X: a\r\n" * 1000, size) is Reason.BAD_REQUEST
    assert read(POST + b"Content-Length: 100\r\n\r\n" + b"a" * 100, 1, max_body=100)[0] == [Step.WHOLE]


@pytest.mark.parametrize("method", [b"CONNECT", b"TRACE"])
def test_methods_that_only_a_proxy_may_take(method: bytes) -> None:
    target = b"a:80" if method == b"CONNECT" else b"/"
    assert read(b"%b %b HTTP/1.1\r\nHost: a\r\n\r\n" % (method, target))[1].fault is Reason.METHOD_NOT_ALLOWED


def test_large_unsized_and_expected_bodies_are_announced() -> None:
    small = POST + b"Content-Length: 3\r\n\r\n"
    assert read(small)[0] == []
    large = POST + b"Content-Length: %d\r\n\r\n" % (ASK_FIRST + 1)
    assert read(large)[0] == [Step.HEAD]
    assert read(large + b"x" * (ASK_FIRST + 1), 1000)[0] == [Step.HEAD, Step.WHOLE]
    assert read(CHUNKED)[0] == [Step.HEAD]
    steps, reader = read(POST + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
    assert steps == [Step.HEAD]
    assert reader.expects_continue


def test_instants() -> None:
    reader = RequestReader("", 65536, 1 << 20)
    reader.receive(POST, 5.0)
    assert reader.step() is Step.NEED
    reader.receive(b"Content-Length: 2\r\n\r\na", 6.0)
    assert reader.step() is Step.NEED
    reader.receive(b"bGET", 7.0)
    assert reader.step() is Step.WHOLE
    assert (reader.request.arrived_at, reader.request.read_at, reader.started_at) == (5.0, 7.0, 7.0)
