"""One tenant's waiting requests in a lane. What is no longer `queued` is skipped when met."""

from collections import deque
from typing import Final

from plimsoll.governor.classes import Classes
from plimsoll.governor.lifecycle import QUEUED
from plimsoll.governor.request import Request

LOOKAHEAD: Final = 7  # candidates looked at when the head of a lane does not fit
SCANNED: Final = 40  # places of a line gone through to find them: some have left from the middle


class Waiting:
    """Those who wait, the oldest first, and behind them those who are late: whom waiting has cost their objective.

    In an overload everybody would else be served just too late; so the newer ones still get what they were promised.
    """

    def __init__(self) -> None:
        self.items: deque[Request] = deque()  # late ones are skipped here when met
        self.late: deque[Request] = deque()

    def first(self) -> Request | None:
        """Who is next and still waits."""
        items = self.items
        while items:
            request = items[0]
            if request.state == QUEUED and not request.late:
                return request
            items.popleft()
        late = self.late
        while late:
            request = late[0]
            if request.state == QUEUED:
                return request
            late.popleft()
        return None

    def add(self, request: Request, *, front: bool) -> None:
        """Let it wait, last or (again) in front."""
        if front:
            self.items.appendleft(request)
        else:
            self.items.append(request)

    def is_late(self, request: Request) -> None:
        """From now on it waits behind those who are not."""
        request.late = True
        self.late.append(request)

    def drop(self, request: Request, num: int) -> bool:
        """It waits no more, so many are left; whether another one is next now."""
        waiting = self.late if request.late else self.items
        if waiting and waiting[0] is request:
            waiting.popleft()
            return True
        if len(waiting) > 2 * num + 32:
            kept = deque([item for item in waiting if item.state == QUEUED and item.late == request.late])
            if request.late:
                self.late = kept
            else:
                self.items = kept
        return False

    def behind(self, head: Request, found: list[Request]) -> None:
        """Add a few that wait behind the first."""
        _look_along(self.items, head, found, late=False)
        _look_along(self.late, head, found, late=True)

    def all(self) -> list[Request]:
        """Everybody who waits; one that failed and waits again may be told twice."""
        on_time = [item for item in self.items if item.state == QUEUED and not item.late]
        return on_time + [item for item in self.late if item.state == QUEUED]


class Line:
    """Oldest first; `counter` is the service that the tenant had."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.counter = 0.0
        self.num = 0
        self._waiting = Waiting()

    def first(self) -> Request | None:
        """Who is next and still waits."""
        return self._waiting.first()

    def add(self, request: Request, *, front: bool) -> None:
        """Let it wait, last or (again) in front."""
        self._waiting.add(request, front=front)

    def is_late(self, request: Request) -> None:
        """It waits behind those who are not from now on; another one may be next."""
        self._waiting.is_late(request)

    def drop(self, request: Request) -> bool:
        """It waits no more; whether another one is next now. `num` has been counted down already."""
        return self._waiting.drop(request, self.num)

    def behind(self, head: Request) -> list[Request]:
        """A few that wait behind its first."""
        found: list[Request] = []
        self._waiting.behind(head, found)
        return found

    def all(self) -> list[Request]:
        """Everybody who waits; one that failed and waits again may be told twice."""
        return self._waiting.all()

    def served(self, request: Request, tokens: float, pressed: float, *, waited: bool) -> None:
        """So much service goes to the request, after so many seconds of pressure; whether it has waited."""


class ClassedLine(Line):
    """With classes of requests: the class with the least service ÷ weight goes next, in it the oldest."""

    def __init__(self, index: int, classes: Classes) -> None:
        super().__init__(index)
        self._classes = classes
        self._queues = [Waiting() for _ in range(classes.num)]
        self._served = [0.0] * classes.num
        self._last = 0  # served last

    def first(self) -> Request | None:
        """Who is next and still waits."""
        found: Request | None = None
        least = 0.0
        for number, queue in enumerate(self._queues):
            if found is not None and self._served[number] >= least:
                continue
            first = queue.first()
            if first is not None:
                found, least = first, self._served[number]
        return found

    def add(self, request: Request, *, front: bool) -> None:
        """Let it wait in its class."""
        number = request.class_number
        if self._queues[number].first() is None:
            self._lift(number)
        self._queues[number].add(request, front=front)

    def _lift(self, number: int) -> None:
        """One that returns from idle starts level with those that wait, or where none does, with the last served."""
        head = self.first()
        level = self._served[self._last if head is None else head.class_number]
        self._served[number] = max(self._served[number], level)

    def is_late(self, request: Request) -> None:
        """It waits behind those of its class who are not from now on; another one may be next."""
        self._queues[request.class_number].is_late(request)

    def drop(self, request: Request) -> bool:
        """It waits no more; another one may be next."""
        self._queues[request.class_number].drop(request, self.num)
        return True

    def behind(self, head: Request) -> list[Request]:
        """A few that wait behind its first, in any class."""
        found: list[Request] = []
        for queue in self._queues:
            queue.behind(head, found)
        return found

    def all(self) -> list[Request]:
        """Everybody who waits."""
        return [item for queue in self._queues for item in queue.all()]

    def served(self, request: Request, tokens: float, pressed: float, *, waited: bool) -> None:
        """Its class pays, the more the more it has faded."""
        number = request.class_number
        if self.num == 0 and not waited:
            self._lift(number)
        self._served[number] += tokens / self._classes.weight(number, pressed)
        self._last = number


def _look_along(items: deque[Request], head: Request, found: list[Request], *, late: bool) -> None:
    for num, request in enumerate(items):
        if num > SCANNED or len(found) >= LOOKAHEAD:
            return
        if request.state == QUEUED and request.late == late and request is not head:
            found.append(request)
