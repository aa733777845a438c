"""Steps of a path after its pool is chosen, in words: what budgets close, whose turn it is, may it be hedged."""

from math import inf
from typing import Final

from plimsoll.governor.events import Criticality
from plimsoll.governor.placing import is_sheddable
from plimsoll.governor.pool import Pool
from plimsoll.governor.prefilling import prefiller_for
from plimsoll.governor.register import Register
from plimsoll.governor.request import Request
from plimsoll.governor.tenants import Account
from plimsoll.policy.budget import Risk
from plimsoll.units import format_duration

Step = tuple[str, str, str]
"""Step, answer, why."""

_CLOSED: Final = {
    Risk.OVERSUBSCRIPTION: "nothing is oversubscribed",
    Risk.LENDING: "its tier's idle floor is not lent on time",
    Risk.HEDGING: "it is asked of no second replica",
}


def budget_step(register: Register, request: Request) -> Step:
    """How its tenant's budget is, and which risky choices that closes."""
    account = request.account
    closed = "; ".join([_CLOSED[risk] for risk in Risk if _closes(register, account, risk)])
    if account.spent:
        names = ", ".join([state.objective for state in account.budgets.values() if state.degrade or state.exhausted])
        return "budget", "closes risky choices", f"spent: {names}; {closed or 'the policy forbids nothing then'}"
    how = "whole" if account.budgets else "not reported"
    if closed:
        return "budget", how, f"not known to be healthy: {closed}"
    if any(each.known and _closes(register, each, Risk.OVERSUBSCRIPTION) for each in register.accounts.values()):
        return "budget", how, "another tenant's closes a risk of all: nothing is oversubscribed"
    return "budget", how, "risky choices are open"


def turn_step(register: Register, pool: Pool, request: Request) -> Step:
    """By which order it would wait, as what kind of request, and who goes before it."""
    rules = register.policy.scheduling
    told = []
    named = next((each for each in rules.classes if request.cause in each.causes), None)
    if named is not None:
        fades = "" if named.decay == inf else f", half of it after each {format_duration(named.decay)} of pressure"
        told.append(f"class {named.name} of its tenant's turns, weight {float(named.weight):g}{fades}")
    elif rules.classes:
        told.append("of no class: weight 1 among its tenant's turns")
    if request.criticality is not Criticality.DEFAULT:
        told.append(request.criticality.value)
    if is_sheddable(pool, request):
        told.append("gives its place in a full queue to one that is not sheddable")
    if pool.late_last:
        told.append("in an overload that lasts it goes behind its tenant's others once it is late for its objective")
    if request.deadline_at < inf:
        told.append(f"expires at its own deadline, {format_duration(request.deadline_at - request.came_at)} from now")
    passed = f"may be passed {pool.bypasses} times"
    if pool.bypass_for < inf:
        passed += f", for {format_duration(pool.bypass_for)} at most"
    return "turn", str(rules.order), "; ".join([*told, passed])


def prefill_step(pool: Pool, request: Request, at: float) -> Step | None:
    """Which engine would compute its prompt apart; None where the pool has none such."""
    if not pool.prefillers:
        return None
    chosen = prefiller_for(pool, request, at)
    if chosen is None:
        return (
            "prefill",
            "where it is decoded",
            "its prompt or API is not for two hops, or no engine for it is up",
        )
    return "prefill", chosen.name, f"{chosen.pending_prompt} prompt tokens are before it there, the fewest"


def shared_words(register: Register, pool: Pool) -> str:
    """With whom the pool shares its replicas, and how many it has now; "" where it has its own."""
    for sizing in register.sizings:
        for mine, its in ((sizing.own, sizing.other), (sizing.other, sizing.own)):
            if mine.pool is pool:
                num, others = len(mine.serving()), len(its.serving())
                return f"; shares its replicas with {its.pool.name}: it has {num} now, {its.pool.name} {others}"
    return ""


def hedge_step(pool: Pool, request: Request) -> Step | None:
    """Whether a second replica would be asked for a late first token; None where the policy does not."""
    hedges = pool.hedges
    if hedges is None:
        return None
    if not request.streaming:
        return "hedging", "no", "only streams show a first token"
    if not request.account.may_hedge:
        return "hedging", "no", "its tenant's budget closes it"
    usual = hedges.patience(1.0)
    if usual is None:
        return "hedging", "not yet", "too few first tokens were seen to call one late"
    late = f"{usual:.2g} times its prediction" if hedges.predicts else f"{format_duration(usual)} after its dispatch"
    return "hedging", "if late", f"a first token later than {late}; {hedges.credit:.0f} tokens of its budget are left"


def _closes(register: Register, account: Account, risk: Risk) -> bool:
    return register.policy.budget.closes(risk.value, spent=account.spent, healthy=account.healthy)
