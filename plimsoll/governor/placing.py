"""Where a request belongs and what it needs, before anybody asks whether there is room."""

from math import ceil

from plimsoll.governor.admission import reserved_output
from plimsoll.governor.degradation import BATCH_OF_ONE, DROP_PLUGINS, SMALL_MODEL, Ladder
from plimsoll.governor.events import Criticality
from plimsoll.governor.fronts import Order
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.governor.tenants import Account
from plimsoll.policy.matrix import in_order
from plimsoll.policy.policy import Tenant, Tier
from plimsoll.slo.outcome import Reason


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


def classes_for(tier: Tier, account: Account) -> tuple[str, ...] | None:
    """The classes that requests of that tier and tenant may use now, in order; (): every one; None: no such rule."""
    rules = tier.classes
    if rules is None:
        return None
    if account.spent:
        return rules.spent
    return rules.healthy if account.healthy else rules.usual


def in_turn(register: Register, tier: Tier, model: str, classes: tuple[str, ...]) -> Order:
    """The model's pools that these classes allow, the one to try first first: by what they have shown where the tier
    asks for that, else by class."""
    order = register.fronts.of(tier.name, model)
    if order is not None:
        return order.among(classes)
    pools = register.by_model.get(model, [])
    placed = sorted([(in_order(classes, pool.policy.sla_class), index) for index, pool in enumerate(pools)])
    allowed = [(place, pools[index]) for place, index in placed if place >= 0]
    return Order([pool for _, pool in allowed], [place for place, _ in allowed])


def refused_for_itself(register: Register, request: Request, *, draining: bool) -> Refusal | None:
    """Why it is refused for what it is or for what we are, before its pool is looked for; None: it is not."""
    account = request.account
    if not account.known:
        return Refusal(Reason.UNKNOWN_KEY)
    if draining:
        return Refusal(Reason.DRAINING)
    if request.checked is not None and request.checked.reason is not None:
        return Refusal(request.checked.reason)
    if request.deadline_at <= request.came_at:
        return Refusal(Reason.DEADLINE)
    if request.asked_tier or account.requires_cause:
        known = request.asked_tier in register.tiers
        return refused_label(account.tenant, request.asked_tier, request.cause, tier_known=known)
    return None


def place_of(
    register: Register, model: str, prompt_tokens: int, allowed: list[Pool] | None = None
) -> tuple[Pool | None, Refusal | None]:
    """The pool that serves the model at that prompt length: one with a replica up where there are several.

    `allowed` are the model's pools that may be used, in order; None: all.
    """
    pools = register.by_model.get(model) if allowed is None else allowed
    if pools is None:
        return None, Refusal(Reason.UNKNOWN_MODEL, "known: " + ", ".join(sorted(register.by_model)))
    if not pools:
        return None, Refusal(Reason.UNKNOWN_MODEL, f"{model} is not for requests of this tier now")
    best: Pool | None = None
    for pool in pools:
        if not pool.prompt_from <= prompt_tokens < pool.prompt_below:
            continue
        if pool.has_hope():
            return pool, None
        if best is None:
            best = pool
    if best is not None:
        return None, Refusal(Reason.NO_REPLICA, f"pool {best.name}")
    largest = max([pool.prompt_below for pool in pools])
    return None, Refusal(Reason.PROMPT_TOO_LONG, f"prompt {prompt_tokens} tokens, largest context {largest}")


def level_for(ladder: Ladder, account: Account, criticality: Criticality) -> int:
    """Of the ladder: its pool's, and its tenant's for what is not critical."""
    return ladder.level if criticality is Criticality.CRITICAL else max(ladder.level, account.level)


def degrade(register: Register, pool: Pool, request: Request) -> Pool:
    """Take from the request what the ladder says, before it is placed; the pool that it goes to."""
    ladder = pool.ladder
    if ladder is None:
        request.degraded = DROP_PLUGINS if request.checked is not None and request.checked.dropped else ""
        return pool
    is_critical = request.criticality is Criticality.CRITICAL
    level = level_for(ladder, request.account, request.criticality)
    taken: list[str] = []
    if ladder.holds(DROP_PLUGINS, level) if request.checked is None else request.checked.dropped:
        taken.append(DROP_PLUGINS)
    if ladder.holds(BATCH_OF_ONE):
        taken.append(BATCH_OF_ONE)
    if not is_critical and ladder.holds(SMALL_MODEL, level):
        classes = classes_for(request.tier_queue.tier, request.account)
        smaller = register.degrade_target(pool, request.prompt_tokens, classes)
        if smaller is not None:
            taken.append(SMALL_MODEL)
            request.sent_model = smaller.policy.model
            pool = smaller
    request.degraded = ",".join(taken)
    return pool


def is_sheddable(pool: Pool, request: Request) -> bool:
    """Whether its client, its class or its tier says that others may take its place in the queue."""
    if request.criticality is Criticality.SHEDDABLE or request.tier.sheddable:
        return True
    return pool.classes is not None and pool.classes.sheddable(pool.classes.of(request.cause))


def reserve(pool: Pool, request: Request) -> None:
    """Say how much output is reserved for and expected of the request."""
    request.sized_for = 0
    if not request.makes_tokens:
        request.output_tokens = request.expected_output = 0
    else:
        account = request.account
        asked = request.max_output_tokens
        room = None if pool.context is None else max(0, pool.context - request.prompt_tokens)
        usual = account.outputs.high.upper()
        request.output_tokens = reserved_output(asked, usual, room, strict=pool.strict)
        request.usual = usual is not None
        middle = account.outputs.median.middle()
        expected = request.output_tokens if middle is None else ceil(middle)
        request.expected_output = min(expected, request.output_tokens)
    request.token_estimate = request.prompt_tokens + request.num_choices * request.output_tokens
