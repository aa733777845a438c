"""What a plugin is given, and must be able to do.

    class Topic:                                          # added by a package under the group `plimsoll.plugins`
        def __init__(self, settings): …                   the policy's `settings` of it, as plain data
        async def check(self, asked: Asked) -> str: …     "" lets the request pass, else why not, for its client
        async def close(self): …                          not needed; when no policy names it any more

`check` may as well be a plain function: it then runs in a thread of its own kind, so that it may wait. An `async` one
runs on the loop that forwards everybody's tokens and must never hold it up. What it raises, and taking longer than its
`timeout`, is a failure: `on_error` of the policy says what becomes of the request. It is called for several requests at
once, `concurrency` at most. Prompts belong to the tenants: a plugin must not keep them.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

from plimsoll.slo.outcome import Reason


class Asked(NamedTuple):
    """A request as plugins see it."""

    request_id: str
    tenant: str
    tier: str
    model: str
    endpoint: str  # chat, completions, responses, messages, embeddings, other
    cause: str
    body: bytes  # as the client sent it
    is_json: bool
    content_type: str


class Said(StrEnum):
    """What became of one plugin."""

    ALLOW = "allow"
    DENY = "deny"
    ERROR = "error"  # it raised
    TIMEOUT = "timeout"
    BUSY = "busy"  # it looks at as many requests as it may
    DROPPED = "dropped"  # the ladder left it out


class Found(NamedTuple):
    """What the chain came to."""

    said: tuple[tuple[str, Said], ...]  # by plugin, as far as they were asked
    reason: Reason | None = None  # why the request is refused; None: it goes on
    detail: str = ""  # for its client alone


Cancel = Callable[[], None]


class PluginRunner(Protocol):
    """Asks those plugins, in order, until one does not let the request pass; `done` is called later, once."""

    def __call__(self, names: tuple[str, ...], asked: Asked, done: Callable[[Found], None]) -> Cancel:
        """What is returned ends it: then `done` is not called."""


def no_plugins(names: tuple[str, ...], asked: Asked, done: Callable[[Found], None]) -> Cancel:
    """Hands without plugins."""
    raise NotImplementedError(f"nobody runs the plugins {', '.join(names)}")
