"""Requests that run on two simulated replicas until either shows the first token: the virtual hands of hedging."""

from typing import Final

from plimsoll.sim.flight import Flight
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, Job, Output

Place = tuple[int, Job]
"""Number of a replica, and the job there."""

NOT_ITS: Final = 0  # of a place that was given up: nobody listens
FIRST: Final = 1  # of the first attempt, or the only one
SECOND: Final = 2  # the second attempt showed the first token and is the only one now


class Races:
    """Second places by request. Whoever gives a place up must take its job from its replica."""

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}
        self.lost: list[Place] = []  # by the last `judge`, to be taken from their replicas

    def judge(self, flight: Flight, output: Output) -> int:
        """Whose output of the request's jobs that is; a first token ends its race."""
        place = self.places.get(flight.request_id)
        by_second = place is not None and output.job is place[1]
        if not by_second and output.job is not flight.job:
            return NOT_ITS
        if place is None or output.kind not in (FIRST_TOKEN, FINISHED):
            return NOT_ITS if by_second else FIRST
        del self.places[flight.request_id]
        if not by_second:
            self.lost.append(place)
            return FIRST
        if flight.job is not None:
            self.lost.append((flight.replica, flight.job))
        flight.replica, flight.job = place
        return SECOND

    def promote(self, flight: Flight) -> bool:
        """Its first place is lost; whether the second takes it."""
        place = self.places.pop(flight.request_id, None)
        if place is not None:
            flight.replica, flight.job = place
        return place is not None

    def leave(self, number: int) -> list[int]:
        """Requests that lose their second place, since that replica is gone."""
        gone = [request_id for request_id, place in self.places.items() if place[0] == number]
        for request_id in gone:
            del self.places[request_id]
        return gone
