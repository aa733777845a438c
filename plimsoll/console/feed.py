"""The gateway's admin API as a reader sees it: decisions as they stream by, and its snapshot."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.governor.decisions import Decision


class Told(Struct, frozen=True):
    """One event of `/admin/events`."""

    at: float
    tenant: str
    decision: Decision


class Dropped(Struct, frozen=True):
    """The stream could not keep up with so many decisions."""

    dropped: int


class Feed:
    """Reads one gateway. Raises UsageError where it cannot be reached or refuses the token."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def decisions(self) -> AsyncIterator[Told | Dropped]:
        """Each decision from now on, until the gateway ends the stream."""
        told, dropped = msgspec.json.Decoder(Told), msgspec.json.Decoder(Dropped)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 20) as session,
                session.get(f"{self._url}/admin/events", headers=self._headers) as answer,
            ):
                self._check(answer.status)
                async for line in answer.content:
                    if line.startswith(b"data:"):
                        data = line[5:].strip()
                        yield dropped.decode(data) if data.startswith(b'{"dropped"') else told.decode(data)
        except aiohttp.ClientConnectorError as error:
            raise UsageError(
                f"cannot reach {self._url}: {os.strerror(error.errno) if error.errno else error}"
            ) from error
        except aiohttp.ClientError:
            return  # the gateway has gone

    async def snapshot(self) -> dict[str, Any] | None:
        """`/admin/snapshot`; None where it does not come within a second."""
        try:
            async with (
                asyncio.timeout(1.0),
                aiohttp.ClientSession() as session,
                session.get(f"{self._url}/admin/snapshot", headers=self._headers) as answer,
            ):
                self._check(answer.status)
                document = msgspec.json.decode(await answer.read())
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
            return None
        return document if isinstance(document, dict) else None

    def _check(self, status: int) -> None:
        if status in {401, 403}:
            given = "refuses that admin token" if self._headers else "wants the admin token: name its file with --token"
            raise UsageError(f"{self._url} {given}")
        if status != 200:
            raise UsageError(f"{self._url} answers {status}: is it the admin port of plimsoll serve?")
