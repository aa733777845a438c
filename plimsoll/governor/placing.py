"""Where a request belongs and what it needs, before anybody asks whether there is room."""

from math import ceil
from typing import Final

from plimsoll.governor.admission import reserved_output
from plimsoll.governor.estimates import RunningQuantile
from plimsoll.governor.events import Endpoint
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.governor.tenants import Account
from plimsoll.policy.policy import Tenant
from plimsoll.slo.outcome import Reason

_NO_OUTPUT: Final = frozenset({Endpoint.EMBEDDINGS, Endpoint.OTHER})
_ENOUGH: Final = 20  # outputs seen before their quantile counts
_WINDOW: Final = 500  # outputs; the last two to three windows count


class Refusal:
    """Why a request cannot be taken at all, with the numbers for the message."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason = reason
        self.detail = detail


def refused_label(tenant: Tenant, tier: str, cause: str, *, tier_known: bool) -> Refusal | None:
    """What a tenant may not ask for, or must say and did not."""
    if tier and tier != tenant.tier and (tier not in tenant.tiers or not tier_known):
        allowed = ", ".join([tenant.tier, *tenant.tiers])
        return Refusal(Reason.FORBIDDEN_TIER, f"asked for tier {tier!r}, may use {allowed}")
    if tenant.require_cause and not cause:
        return Refusal(Reason.LABEL_REQUIRED)
    return None


def place_of(register: Register, model: str, prompt_tokens: int) -> tuple[Pool | None, Refusal | None]:
    """The pool that serves the model at that prompt length: one with a replica up where there are several."""
    pools = register.by_model.get(model)
    if pools is None:
        return None, Refusal(Reason.UNKNOWN_MODEL, "known: " + ", ".join(sorted(register.by_model)))
    best: Pool | None = None
    for pool in pools:
        if not _takes(pool, prompt_tokens):
            continue
        if pool.has_hope():
            return pool, None
        if best is None:
            best = pool
    if best is not None:
        return None, Refusal(Reason.NO_REPLICA, f"pool {best.name}")
    largest = max([_largest_prompt(pool) for pool in pools])
    return None, Refusal(Reason.PROMPT_TOO_LONG, f"prompt {prompt_tokens} tokens, largest context {largest}")


def reserve(pool: Pool, request: Request) -> None:
    """Say how much output is reserved for and expected of the request."""
    if request.arrived.endpoint in _NO_OUTPUT:
        request.output_tokens = request.expected_output = 0
    else:
        account = request.account
        asked = request.arrived.max_output_tokens
        context = pool.max_context()
        room = None if context is None else max(0, context - request.prompt_tokens)
        usual = None if account.outputs is None else account.outputs.upper()
        request.output_tokens = reserved_output(asked, usual, room, strict=pool.strict)
        middle = None if account.median_output is None else account.median_output.middle()
        expected = request.output_tokens if middle is None else ceil(middle)
        request.expected_output = min(expected, request.output_tokens)
    request.token_estimate = request.prompt_tokens + request.num_choices * request.output_tokens


def learn_output(account: Account, output_tokens: int, quantile: tuple[int, int]) -> None:
    """A choice of that tenant's ended by itself after so many tokens."""
    if account.outputs is None or account.median_output is None:
        account.outputs = RunningQuantile(quantile[0], quantile[1], _ENOUGH, _WINDOW)
        account.median_output = RunningQuantile(1, 2, _ENOUGH, _WINDOW)
    account.outputs.add(output_tokens)
    account.median_output.add(output_tokens)


def _takes(pool: Pool, prompt_tokens: int) -> bool:
    policy = pool.policy
    if prompt_tokens < policy.min_prompt_tokens:
        return False
    if policy.max_prompt_tokens is not None and prompt_tokens >= policy.max_prompt_tokens:
        return False
    context = pool.max_context()
    return context is None or prompt_tokens < context


def _largest_prompt(pool: Pool) -> int:
    """Tokens; a pool that neither bounds prompts nor says its context takes any, so it never asks this."""
    bounds = [bound for bound in (pool.policy.max_prompt_tokens, pool.max_context()) if bound is not None]
    return min(bounds, default=0)
