"""Who may ask the console for what: hosts it answers to, headers it sends, the admin token for what changes anything.

A page may be read by whoever reaches the port: that is loopback, unless told otherwise, and then the token is asked
for. Names other than the console's own are refused, so that no page elsewhere reads it by rebinding a name; what
changes anything must come from a page of ours and carry the token, which no other page knows.
"""

import base64
import binascii
import hmac
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Stands before every handler. `token_file` is where the gateway keeps its admin token; "" where there is none."""

    def __init__(self, host: str, token: str, token_file: Path | None = None) -> None:
        self._open = is_loopback(host)
        self._given = token
        self._file = token_file

    @property
    def token(self) -> str:
        """The admin token: as given, else as the gateway's file says now."""
        if self._given or self._file is None:
            return self._given
        try:
            return self._file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def permits(self, given: str) -> bool:
        """Whether that is the admin token. Never where there is none."""
        token = self.token
        return bool(token) and hmac.compare_digest(given.strip().encode(), token.encode())

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse, or serve with the headers that keep a page to itself."""
        refused = self._refused(request)
        if refused is not None:
            refused.headers.update(HEADERS)
            return refused
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            error.headers.update(HEADERS)
            raise
        if not answer.prepared:
            for name, value in HEADERS.items():
                answer.headers.setdefault(name, value)
        return answer

    def _refused(self, request: web.Request) -> web.Response | None:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        if self._open and not is_loopback(host):
            return web.Response(status=421, text="This console answers to names of this machine only.\n")
        if not self._open and not self.permits(_password(request.headers.get("Authorization", ""))):
            asked = {"WWW-Authenticate": 'Basic realm="Plimsoll: any name, and the admin token as password"'}
            return web.Response(status=401, text="The admin token is wanted as password.\n", headers=asked)
        if request.method not in {"GET", "HEAD"} and not _is_own(request):
            return web.Response(status=403, text="This may be asked by a page of the console only.\n")
        return None


def _password(header: str) -> str:
    kind, _, rest = header.partition(" ")
    if kind.lower() == "bearer":
        return rest
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(rest, validate=True).decode("utf-8", "replace").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""


def _is_own(request: web.Request) -> bool:
    """Whether a page of this very console sent it: every browser says so of a POST."""
    origin = request.headers.get("Origin", "")
    return bool(origin) and urlsplit(origin).netloc == request.headers.get("Host", "")
