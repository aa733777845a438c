"""A flight copies its arrival's fields in their order."""

from msgspec.structs import fields

from plimsoll.sim.arrival import Arrival
from plimsoll.sim.flight import Flight


def test_every_field_of_an_arrival_is_copied_to_its_place() -> None:
    flight = Flight(7, Arrival(*range(len(fields(Arrival)))))
    names = {"at": "starts_at", "tier": "asked_tier"}
    for number, field in enumerate(fields(Arrival)):
        assert getattr(flight, names.get(field.name, field.name)) == number
    assert (flight.request_id, flight.replica, flight.job) == (7, -1, None)
