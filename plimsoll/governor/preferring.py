"""Orders beside fair turns: whom a lane would rather send to a replica than the one whose turn it is.

`edf` prefers the earliest due, `locality` the one whose prompt the replica holds most of (D2LPM:
https://arxiv.org/abs/2501.14312), other packages' orders whom they like (`rules`). All choose among the few next in
fair turns, and only as far as their tenant gets at most `deficit` tokens ahead (`Lane.may_pass`), so that fairness
keeps a bound; and one may be passed `bypasses` times, so that nobody waits for ever.
"""

from typing import Final

from plimsoll.governor.admission import NO, fits
from plimsoll.governor.keeping import was_passed_enough
from plimsoll.governor.pool import Pool
from plimsoll.governor.queueing import charge_for
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.routing import held_tokens, open_to
from plimsoll.policy.objective import Sli

_TTFT: Final = Sli.TTFT  # bound once: compiled code looks such names up by their text
_E2E: Final = Sli.E2E


def preferred(pool: Pool, replica: Replica, head: Request, right: int, at: float) -> Request:
    """Who goes there: the head, which might by that right, or one whom the order prefers, by no weaker right."""
    if was_passed_enough(pool, head, at):
        return head
    lane = pool.lanes[head.lane]
    best = head
    best_cost = _cost(pool, replica, head, at)
    for request in lane.others(head):
        cost = _cost(pool, replica, request, at)
        if cost >= best_cost or not open_to(replica, request, at):
            continue
        other_right = fits(replica, request, pool.lending, at)
        if other_right == NO or other_right > right:
            continue
        if lane.may_pass(request, head, charge_for(request, 0)):
            best, best_cost = request, cost
    return best


def due_at(pool: Pool, request: Request) -> float:
    """The instant by which it must be dispatched to meet its objective behind one step's worth of other prompts; inf
    where no objective says so."""
    token_time = pool.prompt_pace.token_time()
    prompt = 0.0 if token_time is None else token_time * (request.prompt_tokens + pool.lending.service.step_tokens)
    due = request.deadline_at - prompt
    for objective in request.objectives:
        if objective.sli is _TTFT:
            due = min(due, request.arrived_at + objective.below - prompt)
        elif objective.sli is _E2E:
            output = request.expected_output * pool.token_time
            due = min(due, request.arrived_at + objective.below - prompt - output)
    return due


def _cost(pool: Pool, replica: Replica, request: Request, at: float) -> float:
    """The lower the sooner; equal ones leave the turn where it is."""
    if pool.preference == "edf":
        return request.due_at
    rule = pool.order_rule
    if rule is None:
        return -float(held_tokens(pool, replica, request))
    cost = rule.cost(request, replica, held_tokens(pool, replica, request), at)
    return 0.0 if cost is None else cost
