"""A telling copies its senders' fields in their order."""

from msgspec.structs import fields

from plimsoll.sim.tracesender import Sender
from plimsoll.sim.tracetelling import Sending


def test_every_field_of_a_sender_is_copied_to_its_place() -> None:
    sending = Sending(Sender(*range(1, 1 + len(fields(Sender)))), "llama")
    for number, field in enumerate(fields(Sender), start=1):
        assert getattr(sending, field.name) == number


def test_who_names_no_model_asks_for_the_workload_s() -> None:
    assert Sending(Sender("a"), "llama").model == "llama"
