"""Which pools a request's tier may use, by class and how its tenant's budgets are, and the one that it goes to."""

from plimsoll.governor.admission import NO, fits
from plimsoll.governor.placing import Refusal, classes_for, in_turn, place_of, reserve
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.governor.saturation import holds
from plimsoll.policy.schedulingrules import Drafts


def place(register: Register, request: Request, at: float) -> tuple[Pool | None, Refusal | None]:
    """The pool for it. Of the classes that its tier names the first that can take it now; where none can, the first."""
    pools = candidates(register, request)
    pool, refusal = place_of(register, request.model, request.prompt_tokens, pools)
    if pools is None or pool is None or takes_now(pool, request, at):
        return pool, refusal
    for other in pools:
        fitting = other.prompt_from <= request.prompt_tokens < other.prompt_below
        if other is not pool and fitting and other.has_hope() and takes_now(other, request, at):
            return other, None
    return pool, None


def candidates(register: Register, request: Request) -> list[Pool] | None:
    """The pools of its model that it may use, the one to try first first; None: all, as the policy names them.

    By class or by what they have shown, and of one class those first that draft as it should be drafted for.
    """
    acceptance = register.acceptance
    classes = classes_for(request.tier_queue.tier, request.account)
    if classes is None and acceptance.rules is None:
        return None
    pools = register.by_model.get(request.model)
    if pools is None:
        return None
    places = [0] * len(pools)
    if classes is not None:
        order = in_turn(register, request.tier_queue.tier, request.model, classes)
        pools, places = order.pools, order.places
    if acceptance.rules is None:
        return pools if classes is not None else None
    request.drafts = not acceptance.keeps_from(request.account.index, request.cause)
    unwanted = Drafts.OFF if request.drafts else Drafts.ON
    if len(pools) == 1 or all(not pool.policy.speculation for pool in pools):
        return pools if classes is not None else None
    mismatch = [pool.policy.speculation == unwanted for pool in pools]
    by_draft = sorted(range(len(pools)), key=lambda index: (places[index], mismatch[index], index))
    return [pools[index] for index in by_draft]


def takes_now(pool: Pool, request: Request, at: float) -> bool:
    """Whether it would go to a replica there at once."""
    if pool.num_waiting or holds(pool, at):
        return False
    reserve(pool, request)
    for replica in pool.replicas:  # noqa: SIM110 - a generator costs more
        if replica.routable(at) and fits(replica, request, pool.lending, at) != NO:
            return True
    return False
