"""One small HTTP GET, for probes: no pool, no redirects, bounded in time and size."""

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import httptools

from plimsoll.gateway.tls import default_context

Headers = tuple[tuple[bytes, bytes], ...]
LARGEST: Final = 8 * 1024 * 1024  # bytes of a page


class NotHttp(OSError):
    """What came is not an HTTP answer, or more of it than anybody should send."""


class _Page:
    def __init__(self) -> None:
        self.body = bytearray()
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


async def get(
    url: str, path: str, headers: Headers, seconds: float, tls: ssl.SSLContext | None = None
) -> tuple[int, bytes]:
    """Status and body of GET `path` at that base URL. Raises OSError (refused, reset, NotHttp) or TimeoutError."""
    async with asyncio.timeout(seconds):
        return await _get(url, path, headers, tls)


async def _get(url: str, path: str, headers: Headers, tls: ssl.SSLContext | None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = (tls or default_context()) if secure else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context)
    try:
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        target = (parts.path.rstrip("/") + path).encode()
        writer.write(
            b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n" % (target, parts.netloc.encode(), lines)
        )
        return await _read(reader)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    page = _Page()
    parser = httptools.HttpResponseParser(page)
    try:
        while not page.complete:
            data = await reader.read(65_536)
            if not data:
                break
            parser.feed_data(data)
            if len(page.body) > LARGEST:
                raise NotHttp(f"more than {LARGEST} bytes")
        return parser.get_status_code(), bytes(page.body)
    except httptools.HttpParserError as error:
        raise NotHttp(str(error)) from None
