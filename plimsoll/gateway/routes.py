"""Which API a path belongs to, and what is never passed on to an engine."""

from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from plimsoll.governor.events import Endpoint
from plimsoll.slo.outcome import Reason

GOVERNED: Final[dict[bytes, Endpoint]] = {
    b"/v1/chat/completions": Endpoint.CHAT,
    b"/v1/completions": Endpoint.COMPLETIONS,
    b"/v1/responses": Endpoint.RESPONSES,
    b"/v1/messages": Endpoint.MESSAGES,
    b"/v1/embeddings": Endpoint.EMBEDDINGS,
}
MODELS: Final = b"/v1/models"
HEALTH: Final = frozenset({b"/healthz", b"/readyz", b"/health"})
ENGINE_ADMIN: Final = frozenset({b"/v1/load_lora_adapter", b"/v1/unload_lora_adapter"})  # operators', not tenants'


class Route(NamedTuple):
    """Where a request goes; `refused` where it goes nowhere."""

    path: bytes
    endpoint: Endpoint
    refused: Reason | None = None
    allow: bytes = b""  # methods that would do, with `refused` METHOD_NOT_ALLOWED


_EXACT: Final = {path: Route(path, endpoint) for path, endpoint in GOVERNED.items()}


def find_route(method: bytes, target: bytes) -> Route:
    """The route of a request line; everything else under /v1 is passed through and governed as `other`."""
    if method == b"POST" and (route := _EXACT.get(target)) is not None:
        return route
    path = target.partition(b"?")[0]
    endpoint = GOVERNED.get(path)
    if endpoint is not None:
        if method == b"POST":
            return _EXACT[path]
        if endpoint is not Endpoint.RESPONSES or method != b"GET":
            return Route(path, endpoint, Reason.METHOD_NOT_ALLOWED, b"POST")
    if not passes(path):
        return Route(path, Endpoint.OTHER, Reason.UNKNOWN_ENDPOINT)
    if method not in (b"GET", b"POST", b"DELETE", b"PUT", b"PATCH", b"HEAD"):
        return Route(path, Endpoint.OTHER, Reason.METHOD_NOT_ALLOWED, b"GET, POST, DELETE")
    return Route(path, Endpoint.OTHER)


def passes(path: bytes) -> bool:
    """Whether a path may reach an engine: under /v1, without steps out of it, and not for its operator only."""
    meant = unquote_to_bytes(path)  # as the engine will read it
    climbs = b".." in meant or b"/./" in meant or b"//" in meant or b"\\" in meant or b"\0" in meant
    hidden = meant != path and (b"%2f" in path.lower() or meant.rstrip(b"/") in GOVERNED)
    return path.startswith(b"/v1/") and not climbs and not hidden and meant.rstrip(b"/") not in ENGINE_ADMIN


def is_messages(target: bytes) -> bool:
    """Whether errors on this target take Anthropic's shape."""
    return target.startswith(b"/v1/messages")
