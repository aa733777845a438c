"""An order, a routing score, an admission rule and a plugin for Plimsoll.

What rules are given: `plimsoll/governor/rules.py`; what a plugin is: `plimsoll/gateway/plugin.py`.
"""

from typing import Any

from plimsoll.gateway.plugin import Asked
from plimsoll.governor.rules import PoolSeen, ReplicaSeen, RequestSeen

LONG = 8192
"""Prompt tokens from which a request counts as long."""


class Shortest:
    """The least work first: short questions need not wait behind long ones, as far as fairness allows."""

    def cost(self, request: RequestSeen, replica: ReplicaSeen, held: int, at: float) -> float:
        """Tokens that the request will keep the replica busy with; an output token takes about ten times a prompt's."""
        return request.prompt_tokens - held + 10 * request.expected_output * request.num_choices


class LeastWork:
    """The replica with the least to compute before this request's first token, and of equal ones the emptiest."""

    def cost(self, request: RequestSeen, replica: ReplicaSeen, held: int, at: float) -> float:
        """Prompt tokens before the first token; a token of context counts a thousandth."""
        return replica.pending_prompt + request.prompt_tokens - held + replica.context / 1000


class ShortWhileBusy:
    """Long prompts are refused while anybody waits. It remembers how many, to show that a rule may."""

    def __init__(self) -> None:
        self.num_refused = 0

    def refuse(self, request: RequestSeen, pool: PoolSeen, at: float) -> str:
        """Why not; "" takes it."""
        if request.prompt_tokens < LONG or not pool.num_waiting:
            return ""
        self.num_refused += 1
        return f"prompts of {LONG} tokens and more are not taken while others wait ({request.prompt_tokens} tokens)"


class Words:
    """Requests that hold one of the words in `settings: {words: […]}` may not pass."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._words = [str(word).lower().encode() for word in settings["words"]]

    async def check(self, asked: Asked) -> str:
        """Why not; "" lets it pass. Quick, so it may run on the loop."""
        body = asked.body.lower()
        return "it speaks of what this service does not answer" if any(word in body for word in self._words) else ""
