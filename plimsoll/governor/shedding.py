"""Who leaves a full queue so that another may wait: the newest of those that may be shed."""

from plimsoll.governor.lifecycle import QUEUED
from plimsoll.governor.request import Request
from plimsoll.slo.outcome import Reason


class Sheddable:
    """Waiting requests that may be shed, by tier and by tenant, newest last. Those that have left are skipped.

    One that waits anew is noted anew; only the first note of each is kept when a list is cleared of those that left.
    """

    def __init__(self) -> None:
        self._by_tier: dict[str, list[Request]] = {}
        self._by_tenant: dict[int, list[Request]] = {}

    @property
    def num_notes(self) -> int:
        """How many it keeps, those among them that have left."""
        return sum(map(len, self._by_tier.values())) + sum(map(len, self._by_tenant.values()))

    def waits(self, request: Request) -> None:
        """It waits from now on."""
        _append(self._by_tier.setdefault(request.tier_name, []), request, request.tier_queue.num_waiting)
        _append(self._by_tenant.setdefault(request.account.index, []), request, request.account.num_waiting)

    def newest(self, request: Request, full: Reason) -> Request | None:
        """Whose place the request may have, in the queue that is full: its tenant's or its tier's."""
        if full is Reason.TENANT_QUEUE:
            waiting = self._by_tenant.get(request.account.index, [])
        else:
            waiting = self._by_tier.get(request.tier_name, [])
        while waiting and waiting[-1].state != QUEUED:
            waiting.pop()
        return waiting[-1] if waiting else None


def _append(waiting: list[Request], request: Request, num: int) -> None:
    if len(waiting) > 2 * num + 64:
        waiting[:] = list(dict.fromkeys([each for each in waiting if each.state == QUEUED]))
    waiting.append(request)
