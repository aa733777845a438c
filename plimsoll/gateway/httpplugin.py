"""The plugin that we bring: a service on the operator's side is asked by HTTP whether a request may pass.

    POST url                                 {"request_id", "tenant", "tier", "model", "endpoint", "cause", "request"}
    200 {"allow": true}                      it may pass
    200 {"allow": false, "reason": "…"}      it may not; the reason is for its client

`request` is the client's own JSON, byte for byte. Where a body is no JSON (a form with sound), it comes as `body`, in
Base64, with its `content_type`. Any other answer is a failure.
"""

import os
from base64 import b64encode
from typing import Any, Final

import aiohttp
import msgspec

from plimsoll.gateway.plugin import Asked

LARGEST: Final = 64 * 1024  # bytes of an answer
IDLE: Final = 4.0  # s that a connection is kept: uvicorn closes its own after 5


class Answered(msgspec.Struct):
    """The service's answer."""

    allow: bool
    reason: str = ""


class BadAnswer(ValueError):
    """What came is not such an answer. The text holds nothing of what came."""


class HttpPlugin:
    """Keeps connections to one service; its time is bounded by whoever calls."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """`settings`: `url`, and perhaps `key`, the name of an environment variable with a bearer token."""
        self._url = str(settings["url"])
        key = os.environ.get(str(settings.get("key", "")), "")
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._session: aiohttp.ClientSession | None = None

    async def check(self, asked: Asked) -> str:
        """Why the request may not pass; "": it may. Raises aiohttp.ClientError, OSError, BadAnswer."""
        data = question(asked)
        try:
            return await self._ask(data)
        except aiohttp.ServerDisconnectedError:  # a kept connection that the service closed meanwhile
            return await self._ask(data)

    async def _ask(self, data: bytes) -> str:
        async with self._open().post(self._url, data=data, headers=self._headers, allow_redirects=False) as response:
            if response.status != 200:
                raise BadAnswer(f"status {response.status}")
            answer = b""
            async for part in response.content.iter_any():
                answer += part
                if len(answer) > LARGEST:
                    raise BadAnswer(f"more than {LARGEST} bytes")
            return judged(answer)

    async def close(self) -> None:
        """Let the connections go."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:  # a session wants a running loop
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE)  # who calls bounds how many there are
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
            )
        return self._session


def question(asked: Asked) -> bytes:
    """The body that is posted."""
    told: dict[str, Any] = {name: getattr(asked, name) for name in QUESTION}
    if asked.is_json:
        told["request"] = msgspec.Raw(asked.body)
    else:
        told |= {"request": None, "body": b64encode(asked.body).decode(), "content_type": asked.content_type}
    return msgspec.json.encode(told)


QUESTION: Final = ("request_id", "tenant", "tier", "model", "endpoint", "cause")


def judged(data: bytes) -> str:
    """The verdict in an answer's body. Raises BadAnswer."""
    try:
        answered = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        raise BadAnswer('no JSON of the form {"allow": …, "reason": …}') from None
    if answered.allow:
        return ""
    return answered.reason or "no reason given"


_decoder: Final = msgspec.json.Decoder(Answered)
