"""GET /v1/models: what the policy's pools serve, under every name that a client may ask for."""

from urllib.parse import unquote

import msgspec

from plimsoll.gateway.errors import JSON
from plimsoll.gateway.hands import Answer
from plimsoll.policy.policy import Policy


class Catalogue:
    """The models of one policy."""

    def __init__(self, policy: Policy) -> None:
        names = [name for pool in policy.pools for name in (pool.model, *pool.aliases, *pool.adapters)]
        self.names = tuple(dict.fromkeys(names))
        self.only = policy.pools[0].model if len({pool.model for pool in policy.pools}) == 1 else ""

    def known(self) -> str:
        """For messages: the names that would have done."""
        return "known: " + ", ".join(self.names) if self.names else "the policy has no pools"

    def answer(self, path: bytes) -> Answer | None:
        """The list, or one entry of it; None for a model that nobody serves."""
        name = unquote(path.removeprefix(b"/v1/models").strip(b"/").decode("utf-8", "replace"))  # SDKs write org%2Fname
        if not name:
            listing = {"object": "list", "data": [_entry(known) for known in self.names]}
            return Answer(200, (JSON,), msgspec.json.encode(listing))
        return Answer(200, (JSON,), msgspec.json.encode(_entry(name))) if name in self.names else None


def _entry(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "plimsoll"}
