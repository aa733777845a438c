"""What is asked about a request before it is admitted: plugins, in the policy's order."""

from enum import StrEnum

from msgspec import Struct

HTTP = "http"
"""The kind that we bring: a service is asked by HTTP. Any other kind is the name under which a package adds one."""


class OnError(StrEnum):
    """What becomes of a request whose plugin cannot answer."""

    REFUSE = "refuse"
    PASS = "pass"


class Plugin(Struct, frozen=True):
    """One of the chain. `settings` is what it is made with, as JSON with sorted keys."""

    name: str
    kind: str = HTTP
    core: bool = True  # False: the ladder's `drop_plugins` leaves it out
    timeout: float = 1.0  # s; then it counts as failed
    on_error: OnError = OnError.REFUSE
    concurrency: int = 64  # requests that it looks at at once; it counts as failed for those beyond
    simulated: float = 0.0  # s that it takes in simulations, where it lets everybody pass
    settings: str = "{}"
