"""One tenant's waiting requests in a lane. What is no longer `queued` is skipped when met."""

from collections import deque
from typing import Final

from plimsoll.governor.classes import Classes
from plimsoll.governor.lifecycle import QUEUED
from plimsoll.governor.request import Request

LOOKAHEAD: Final = 7  # candidates looked at when the head of a lane does not fit
SCANNED: Final = 40  # places of a line gone through to find them: some have left from the middle


class Line:
    """Oldest first; `counter` is the service that the tenant had."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.counter = 0.0
        self.num = 0
        self.items: deque[Request] = deque()

    def first(self) -> Request | None:
        """Who is next and still waits."""
        items = self.items
        while items:
            request = items[0]
            if request.state == QUEUED:
                return request
            items.popleft()
        return None

    def add(self, request: Request, *, front: bool) -> None:
        """Let it wait, last or (again) in front."""
        if front:
            self.items.appendleft(request)
        else:
            self.items.append(request)

    def drop(self, request: Request) -> bool:
        """It waits no more; whether another one is next now. `num` has been counted down already."""
        items = self.items
        if items and items[0] is request:
            items.popleft()
            return True
        if len(items) > 2 * self.num + 32:
            self.items = deque([item for item in items if item.state == QUEUED])
        return False

    def behind(self, head: Request) -> list[Request]:
        """A few that wait behind its first."""
        found: list[Request] = []
        _look_along(self.items, head, found)
        return found

    def all(self) -> list[Request]:
        """Everybody who waits; one that failed and waits again may be told twice."""
        return [item for item in self.items if item.state == QUEUED]

    def served(self, request: Request, tokens: float, pressed: float) -> None:
        """So much service goes to the request, after so many seconds of pressure."""


class ClassedLine(Line):
    """With classes of requests: the class with the least service ÷ weight goes next, in it the oldest."""

    def __init__(self, index: int, classes: Classes) -> None:
        super().__init__(index)
        self._classes = classes
        self._queues: list[deque[Request]] = [deque() for _ in range(classes.num)]
        self._served = [0.0] * classes.num

    def first(self) -> Request | None:
        """Who is next and still waits."""
        found: Request | None = None
        least = 0.0
        for number, queue in enumerate(self._queues):
            while queue and queue[0].state != QUEUED:
                queue.popleft()
            if queue and (found is None or self._served[number] < least):
                found, least = queue[0], self._served[number]
        return found

    def add(self, request: Request, *, front: bool) -> None:
        """Let it wait in its class; one that returns from idle starts level with those that wait."""
        number = request.class_number
        head = self.first()
        if head is not None and not self._queues[number]:
            self._served[number] = max(self._served[number], self._served[head.class_number])
        if front:
            self._queues[number].appendleft(request)
        else:
            self._queues[number].append(request)

    def drop(self, request: Request) -> bool:
        """It waits no more; another one may be next."""
        queue = self._queues[request.class_number]
        if len(queue) > 2 * self.num + 32:
            self._queues[request.class_number] = deque([item for item in queue if item.state == QUEUED])
        return True

    def behind(self, head: Request) -> list[Request]:
        """A few that wait behind its first, in any class."""
        found: list[Request] = []
        for queue in self._queues:
            _look_along(queue, head, found)
        return found

    def all(self) -> list[Request]:
        """Everybody who waits."""
        return [item for queue in self._queues for item in queue if item.state == QUEUED]

    def served(self, request: Request, tokens: float, pressed: float) -> None:
        """Its class pays, the more the more it has faded."""
        number = request.class_number
        self._served[number] += tokens / self._classes.weight(number, pressed)


def _look_along(items: deque[Request], head: Request, found: list[Request]) -> None:
    for num, request in enumerate(items):
        if num > SCANNED or len(found) >= LOOKAHEAD:
            return
        if request.state == QUEUED and request is not head:
            found.append(request)
