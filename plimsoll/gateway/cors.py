"""Cross-origin requests from browsers: which origins may read our answers is the policy's word, not the engine's."""

from collections.abc import Mapping
from typing import Final

from plimsoll.gateway.hands import Answer, Headers

EXPOSED: Final = (
    b"x-request-id, x-plimsoll-request-id, x-plimsoll-reason, x-plimsoll-degraded, retry-after, retry-after-ms"
)
METHODS: Final = b"GET, POST, DELETE, OPTIONS"
VARY: Final = (b"vary", b"Origin")


class Cors:
    """The origins of one policy; `*` admits all."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)
        self.enabled = bool(origins)

    def headers(self, fields: Mapping[bytes, bytes]) -> Headers:
        """What an answer to that request carries; nothing for clients that are no browser."""
        if not self.enabled:
            return ()
        origin = fields.get(b"origin")
        if origin is None:
            return () if self._any else (VARY,)
        if self._any:
            return ((b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", EXPOSED))
        if origin not in self._origins:
            return (VARY,)
        return ((b"access-control-allow-origin", origin), VARY, (b"access-control-expose-headers", EXPOSED))

    def preflight(self, fields: Mapping[bytes, bytes]) -> Answer | None:
        """The answer to a browser's question before its request; None where this is no such question."""
        if not self.enabled or b"access-control-request-method" not in fields:
            return None
        allowed = list(self.headers(fields))
        if allowed and allowed[0][0] == b"access-control-allow-origin":
            wanted = fields.get(b"access-control-request-headers", b"authorization, content-type")
            allowed += [
                (b"access-control-allow-methods", METHODS),
                (b"access-control-allow-headers", wanted),
                (b"access-control-max-age", b"600"),
            ]
        return Answer(204, allowed)
