"""Whose turn it is on a replica that has room (law 6).

1. Tiers within their own floor there: a floor is a right. By rank, but whoever had its share of service gives way.
2. A tier behind its share of service (`servicefloors`), or a lower one whose trickle credit covers its head.
3. Everybody else by rank.

In each of these whoever can still meet its objective goes before all who are late.

A head that does not fit in 2 or 3 may be passed by later or lower ones that fit, `bypasses` times in all; then room is
kept where it will soonest fit. Only heads have a turn before its own: a smaller one of their lane has none, or a lane
that is behind could send small ones into that room for ever. A head that this replica has failed already is no reason
to keep room there.
"""

from typing import Final

from plimsoll.governor.admission import LENT, NO, OWN_FLOOR, fits, waits_for_computation
from plimsoll.governor.keeping import keeps_room, was_passed_enough
from plimsoll.governor.pool import Pool
from plimsoll.governor.preferring import preferred
from plimsoll.governor.queueing import charge_for
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.routing import open_to
from plimsoll.slo.outcome import Reason

_POOL_FULL: Final = Reason.POOL_FULL
_PREFERRED: Final = Reason.PREFERRED
_FLOOR: Final = Reason.FLOOR
_BYPASS: Final = Reason.BYPASS
_TRICKLE: Final = Reason.TRICKLE
_LENT: Final = Reason.LENT
_RANK: Final = Reason.RANK


def next_for(pool: Pool, replica: Replica, at: float) -> tuple[Request | None, Reason]:
    """The waiting request that goes to this replica now and why; None where all must wait on."""
    head = _within_floors(pool, replica, at)
    if head is not None:
        return _chosen(pool, replica, head, OWN_FLOOR, [], at)
    passed: list[Request] = []
    for index in _order(pool):
        lane = pool.lanes[index]
        head = lane.head()
        if head is None:
            continue
        if open_to(replica, head, at):
            right = fits(replica, head, pool.lending, at)
            if right != NO:
                return _chosen(pool, replica, head, right, passed, at)
            if not waits_for_computation(replica, head, pool.lending, at):  # else no room kept would let it go sooner
                if was_passed_enough(pool, head, at) and keeps_room(pool, replica, head, at):
                    return None, _POOL_FULL
                passed.append(head)
        smaller = _smaller(pool, replica, head, at)
        if smaller is not None and not _is_kept_for_higher(pool, replica, smaller, at):
            return smaller, _reason(pool, smaller, NO, passed)
    return None, _POOL_FULL


def earn_credit(pool: Pool, charged_lane: int, tokens: float) -> None:
    """Backlogged lanes with a trickle earn from what others are charged, up to the price of their head."""
    for index, lane in enumerate(pool.lanes):
        if index == charged_lane or lane.trickle == 0.0 or lane.num == 0:
            continue
        head = lane.head()
        if head is not None:
            lane.credit = min(lane.credit + lane.trickle * tokens, charge_for(head, 0))


def _within_floors(pool: Pool, replica: Replica, at: float) -> Request | None:
    best: Request | None = None
    least = 4
    for index, lane in enumerate(pool.lanes):
        if lane.num == 0 or replica.room.own(index) <= 0:
            continue
        head = lane.head()
        if head is None:
            continue
        last = 2 * head.late + pool.lending.service.gives_way(index)
        if last < least and open_to(replica, head, at) and fits(replica, head, pool.lending, at) == OWN_FLOOR:
            if last == 0:
                return head
            best, least = head, last
    return best


def _order(pool: Pool) -> list[int]:
    """Lanes in the order in which they may go beyond their floors."""
    due: list[int] = []
    others: list[int] = []
    late: list[int] = []
    for index, lane in enumerate(pool.lanes):
        head = lane.head() if lane.num else None
        if head is None:
            continue
        if head.late:
            late.append(index)
        elif pool.lending.service.is_behind(index) or (lane.credit > 0.0 and _is_due(pool, index)):
            due.append(index)
        else:
            others.append(index)
    return due + others + late


def _is_due(pool: Pool, index: int) -> bool:
    head = pool.lanes[index].head()
    return head is not None and pool.lanes[index].credit >= charge_for(head, 0)


def _smaller(pool: Pool, replica: Replica, head: Request, at: float) -> Request | None:
    """One of the head's own lane that fits where the head does not."""
    lane = pool.lanes[head.lane]
    for request in lane.others(head):
        if not open_to(replica, request, at) or fits(replica, request, pool.lending, at) == NO:
            continue
        if lane.may_pass(request, head, charge_for(request, 0)):
            return request
    return None


def _is_kept_for_higher(pool: Pool, replica: Replica, smaller: Request, at: float) -> bool:
    """Whether that replica keeps its room for the head of a higher tier, from which a smaller one would take it."""
    for index in range(smaller.lane):
        head = pool.lanes[index].head()
        if head is None or not was_passed_enough(pool, head, at) or not open_to(replica, head, at):
            continue
        if not waits_for_computation(replica, head, pool.lending, at) and keeps_room(pool, replica, head, at):
            return True
    return False


def _chosen(  # noqa: PLR0917 - once a dispatch, and keywords cost time
    pool: Pool, replica: Replica, head: Request, right: int, passed: list[Request], at: float
) -> tuple[Request, Reason]:
    """The head that may go, or whom the order prefers to it."""
    chosen = head if pool.preference == "" else preferred(pool, replica, head, right, at)
    if chosen is not head:
        _reason(pool, chosen, right, [*passed, head])
        return chosen, _PREFERRED
    return head, _FLOOR if right == OWN_FLOOR else _reason(pool, head, right, passed)


def _reason(pool: Pool, request: Request, right: int, passed: list[Request]) -> Reason:
    """Why it goes; those it passes are counted as passed once more, and a trickle turn is paid."""
    for head in passed:
        head.bypassed = min(head.bypassed + 1, pool.bypasses)
    lane = pool.lanes[request.lane]
    due = lane.credit > 0.0 and _is_due(pool, request.lane)
    if due:
        lane.credit = 0.0
    if passed:
        return _BYPASS
    if pool.lending.service.is_behind(request.lane) and not request.late:
        return _FLOOR
    if due:
        return _TRICKLE
    return _LENT if right == LENT else _RANK
