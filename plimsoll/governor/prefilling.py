"""Which prompts are computed by an engine apart (`prefiller`), and what follows when that comes to nothing."""

from typing import Final

from plimsoll.governor.events import Endpoint, PrefillFailed
from plimsoll.governor.pool import Pool
from plimsoll.governor.prefiller import Prefiller
from plimsoll.governor.request import Request

TWO_HOPS: Final = frozenset({Endpoint.CHAT, Endpoint.COMPLETIONS})
"""APIs by which vLLM takes and tells transfer parameters."""


def send_to_prefiller(pool: Pool, request: Request, at: float) -> None:
    """A request is being dispatched: have its prompt computed apart where that can be."""
    request.prefiller = chosen = prefiller_for(pool, request, at)
    if chosen is not None:
        request.prefill_tokens = request.prompt_tokens
        chosen.takes(request.prompt_tokens)


def first_token(request: Request) -> None:
    """The transfer worked: its prompt is no work to come, there or here."""
    leave_prefiller(request)
    if request.prefiller is not None:
        request.prefiller.worked()


def leave_prefiller(request: Request) -> None:
    """Whatever became of it, nothing is to be computed there any more."""
    if request.prefiller is not None and request.prefill_tokens:
        request.prefiller.done(request.prefill_tokens)
        request.prefill_tokens = 0


def failed(pools: list[Pool], request: Request, event: PrefillFailed) -> None:
    """The first hop came to nothing: the replica that decodes computes the prompt."""
    prefiller = request.prefiller
    if prefiller is None:
        return
    leave_prefiller(request)
    prefiller.failed(event.at, event.reason, event.retry_after)
    request.prefiller = None
    replica = pools[request.pool_index].replicas[request.replica_index]
    request.pending_prompt = request.prompt_tokens - request.cached_estimate
    replica.pending_prompt += request.pending_prompt


def prefiller_for(pool: Pool, request: Request, at: float) -> Prefiller | None:
    """The one with the least before it; None where the replica that decodes shall compute the prompt itself.

    Only one stream of output can take over a transferred cache, and short prompts are not worth the way.
    """
    if request.whole or request.num_choices > 1 or request.endpoint not in TWO_HOPS:
        return None
    if request.prompt_tokens < pool.policy.prefill_from:
        return None
    best: Prefiller | None = None
    for each in pool.prefillers:
        if each.routable(at) and (best is None or each.pending_prompt < best.pending_prompt):
            best = each
    return best
