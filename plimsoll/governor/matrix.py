"""Which pools a request's tier may use, by class and how its tenant's budgets are, and the one that it goes to."""

from plimsoll.governor.admission import NO, fits
from plimsoll.governor.placing import Refusal, by_class, place_of, reserve
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.governor.saturation import holds
from plimsoll.governor.tenants import Account
from plimsoll.policy.policy import Tier


def place(register: Register, request: Request, at: float) -> tuple[Pool | None, Refusal | None]:
    """The pool for it. Of the classes that its tier names the first that can take it now; where none can, the first."""
    classes = classes_for(request.tier_queue.tier, request.account)
    pool, refusal = place_of(register, request.model, request.prompt_tokens, classes)
    if classes is None or pool is None or takes_now(pool, request, at):
        return pool, refusal
    for other in by_class(register.by_model[request.model], classes):
        fitting = other.prompt_from <= request.prompt_tokens < other.prompt_below
        if other is not pool and fitting and other.has_hope() and takes_now(other, request, at):
            return other, None
    return pool, None


def classes_for(tier: Tier, account: Account) -> tuple[str, ...] | None:
    """The classes that requests of that tier and tenant may use now, in order; None: all."""
    rules = tier.classes
    if rules is None:
        return None
    if account.spent:
        return rules.spent
    return rules.healthy if account.healthy else rules.usual


def takes_now(pool: Pool, request: Request, at: float) -> bool:
    """Whether it would go to a replica there at once."""
    if pool.num_waiting or holds(pool, at):
        return False
    reserve(pool, request)
    for replica in pool.replicas:  # noqa: SIM110 - a generator costs more
        if replica.routable(at) and fits(replica, request, pool.lending, at) != NO:
            return True
    return False
