"""Huge bodies are read by a process of their own.

A decoder holds the interpreter's lock while it reads: 25 MB hold up every stream of the gateway for as long, in
whatever thread that is. What a thread does here is to write to a pipe and to wait, and both let the others go on. The
process is started with the first huge body; where it cannot be had, bodies are read in the thread.
"""

import logging
import os
import struct
import subprocess
import sys
from contextlib import suppress
from typing import Final

import msgspec

from plimsoll.gateway.openai import BadBody, Body, read_body
from plimsoll.governor.events import Endpoint

HUGE: Final = 2 * 1024 * 1024  # bytes; less is read in milliseconds
NICENESS: Final = 5
_HEAD: Final = struct.Struct("<16sQ")
_LENGTH: Final = struct.Struct("<Q")
_log = logging.getLogger("plimsoll.gateway")


class Answer(msgspec.Struct):
    """What the process says: a body, or what is wrong with it."""

    body: Body | None = None
    message: str = ""
    param: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Answer).decode


class BodyHelper:
    """Reads bodies for one thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, endpoint: Endpoint, data: bytes) -> Body:
        """As `read_body`, which see."""
        if len(data) < HUGE:
            return read_body(endpoint, data)
        try:
            answer = self._ask(endpoint, data)
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            _log.warning("the process for huge bodies ended (%s): one is read beside the streams", error)
            self.close()
            return read_body(endpoint, data)
        if answer.body is None:
            raise BadBody(answer.message, answer.param)
        return answer.body

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        process.kill()
        process.wait()

    def _ask(self, endpoint: Endpoint, data: bytes) -> Answer:
        if self._process is None:
            line = [sys.executable, "-m", "plimsoll.gateway.bodyhelper"]
            self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        pipe, back = self._process.stdin, self._process.stdout
        if pipe is None or back is None:
            raise EOFError("no pipes")
        _write(pipe.fileno(), _HEAD.pack(endpoint.value.encode(), len(data)))
        _write(pipe.fileno(), data)
        (length,) = _LENGTH.unpack(_read(back.fileno(), _LENGTH.size))
        return _decode(_read(back.fileno(), length))


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read(fd: int, num: int) -> bytes:
    parts = []
    while num:
        part = os.read(fd, num)
        if not part:
            raise EOFError("it said nothing more")
        parts.append(part)
        num -= len(part)
    return b"".join(parts)


def main() -> None:
    """The process: bodies in, what they say out, until the pipe is closed."""
    os.nice(NICENESS)
    with suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            name, length = _HEAD.unpack(_read(0, _HEAD.size))
            data = _read(0, length)
            try:
                answer = Answer(read_body(Endpoint(name.rstrip(b"\0").decode()), data))
            except BadBody as error:
                answer = Answer(None, str(error), error.param)
            told = _encode(answer)
            _write(1, _LENGTH.pack(len(told)) + told)


if __name__ == "__main__":
    main()
