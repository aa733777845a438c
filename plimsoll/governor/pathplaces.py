"""Steps of a path before a pool is chosen, in words: which plugins look at it, which classes its tier may use."""

from plimsoll.governor.events import RequestRead
from plimsoll.governor.matrix import takes_now
from plimsoll.governor.placing import classes_for, in_turn
from plimsoll.governor.plugins import drops
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.policy.policy import Tier
from plimsoll.units import format_duration

Told = tuple[str, str, str] | None
"""Step, answer, why; None: nothing is asked there."""


def plugins_step(register: Register, request: Request) -> Told:
    """Who would be asked about it, and whom the ladder leaves out."""
    plugins = register.policy.plugins
    if not plugins:
        return None
    read = RequestRead(
        request.came_at, request.id, request.tenant, request.model, request.prompt_tokens, request.criticality,
        request.asked_tier,
    )  # fmt: skip
    dropped = drops(register, read)
    asked = [plugin.name for plugin in plugins if plugin.core or not dropped]
    left_out = [plugin.name for plugin in plugins if not plugin.core and dropped]
    why = "asked in this order before it is admitted; what they will say is not known here"
    if left_out:
        why += f"; left out by the ladder: {', '.join(left_out)}"
    return "plugins", ", ".join(asked) or "none", why


def classes_step(register: Register, request: Request, at: float) -> Told:
    """The classes of pools that its tier may use now, and how the pools of these are."""
    account = request.account
    classes = classes_for(request.tier_queue.tier, account)
    if classes is None:
        return None
    budgets = "calls for action" if account.spent else "is healthy" if account.healthy else "is as usual"
    pools = in_turn(register, request.tier_queue.tier, request.model, classes).pools
    told = "; ".join([_told(register, pool, request, at) for pool in pools]) or "no pool of the model is of these"
    how = _rule(request.tier_queue.tier)
    why = f"what tier {request.tier_name} may use, {how}, while its tenant's budget {budgets}; {told}"
    return "classes", ", ".join(classes) or "all", why


def drafts_step(register: Register, request: Request) -> Told:
    """Whether it should be drafted for, by how much of what was drafted for its like was accepted."""
    rules = register.acceptance.rules
    if rules is None:
        return None
    ratio = register.acceptance.ratio(request.account.index, request.cause)
    if ratio is None:
        return "drafts", "wanted", "how many draft tokens of its like are accepted is not known yet"
    wanted = ratio >= float(rules.below)
    told = f"{ratio:.0%} of the tokens drafted for its like are accepted"
    told += f"; below {float(rules.below):.0%} it is kept from drafts"
    return (
        "drafts",
        "wanted" if wanted else "not wanted",
        told + ("" if wanted else f", but for one in {rules.explore}"),
    )


def _rule(tier: Tier) -> str:
    """How the pools of a tier are ordered that asks for the best within a time."""
    if tier.classes is None or tier.classes.within is None:
        return "in order"
    limit = f"a P99 of {tier.classes.p99_of} within {format_duration(tier.classes.within)}"
    return f"of those that showed {limit} the best first, then those not known, then from the quickest on"


def _told(register: Register, pool: Pool, request: Request, at: float) -> str:
    state = "down" if not pool.has_hope() else "takes it now" if takes_now(pool, request, at) else "full"
    built = "" if pool.policy.built_for is None else f", built for {format_duration(pool.policy.built_for)}"
    shown = _shown(register, pool, request.tier_queue.tier)
    return f"{pool.name} ({pool.policy.sla_class or 'no class'}{built}{shown}): {state}"


def _shown(register: Register, pool: Pool, tier: Tier) -> str:
    """Its quality, and whether it is quick enough; "" where the tier does not ask."""
    if tier.classes is None or tier.classes.within is None:
        return ""
    quality = "" if pool.policy.quality is None else f", quality {pool.policy.quality:g}"
    keeps, time = register.fronts.keeps(tier.name, pool.name), register.fronts.time_of(pool, tier.classes)
    if keeps is None or time is None:
        return f"{quality}, not known how quick"
    return f"{quality}, {'within it' if keeps else 'too slow'} with {format_duration(time)}"
