"""Who leaves a full queue so that another may wait: the newest of those that may be shed."""

from plimsoll.governor.lifecycle import QUEUED
from plimsoll.governor.request import Request
from plimsoll.slo.outcome import Reason


class Sheddable:
    """Waiting requests that may be shed, by tier and by tenant, newest last. Those that have left are skipped."""

    def __init__(self) -> None:
        self._by_tier: dict[str, list[Request]] = {}
        self._by_tenant: dict[int, list[Request]] = {}

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
        while waiting:
            found = waiting.pop()
            if found.state == QUEUED:
                return found
        return None


def _append(waiting: list[Request], request: Request, num: int) -> None:
    if len(waiting) > 2 * num + 64:
        waiting[:] = [each for each in waiting if each.state == QUEUED]
    waiting.append(request)
