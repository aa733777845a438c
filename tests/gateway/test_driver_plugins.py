"""The driver between reading a request and its arrival: who is asked, what is told, and that nothing is lost."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from plimsoll.errors import IllegalTransition
from plimsoll.gateway.guard import Guard
from plimsoll.gateway.plugin import Asked, Cancel, Found, Said
from plimsoll.governor.decisions import Decision, Dispatch, Reject, RunPlugins
from plimsoll.governor.events import (
    Checked,
    Criticality,
    RequestArrived,
    RequestCancelled,
    RequestFinished,
    RequestRead,
    RequestRefused,
)
from plimsoll.policy.plugins import Plugin
from plimsoll.slo.outcome import Reason
from tests.gateway.drivenworld import BODY, POLICY, World

GUARDED = replace(POLICY, plugins=(Plugin("guard"), Plugin("topic", core=False)))


class Hand:
    """Runs plugins when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], Asked]] = []
        self.done: list[Callable[[Found], None]] = []
        self.num_cancelled = 0

    def __call__(self, names: tuple[str, ...], asked: Asked, done: Callable[[Found], None]) -> Cancel:
        self.asked.append((names, asked))
        self.done.append(done)
        return self._cancel

    def _cancel(self) -> None:
        self.num_cancelled += 1


class Guarded(World):
    """A driver whose governor has all plugins asked; `dropped` ones are not."""

    def __init__(self, names: tuple[str, ...] = ("guard", "topic"), dropped: tuple[str, ...] = ()) -> None:
        self.hand = Hand()
        super().__init__(GUARDED, run_plugins=self.hand)
        self.governor.script = {
            RequestRead: lambda event: [RunPlugins(event.request_id, names, dropped)],
            RequestArrived: lambda event: [Dispatch(event.request_id, "chat", "http://r1", "gold", Reason.FITS, 64)],
        }

    def kinds(self) -> list[type]:
        return [type(event) for event in self.governor.events]


def test_it_is_in_the_books_from_when_it_is_asked_about_and_arrives_with_what_was_said() -> None:
    world = Guarded()
    exchange = world.send(x_plimsoll_tier=b"bronze", x_plimsoll_criticality=b"default")
    read = world.governor.last(RequestRead)
    assert (read.at, read.tenant, read.model, read.tier) == (1000.0, "acme", "m", "bronze")
    assert read.criticality is Criticality.DEFAULT
    assert world.log == ["opened", "flush"]
    ((names, asked),) = world.hand.asked
    assert (names, asked.tier, asked.body, asked.is_json) == (("guard", "topic"), "bronze", BODY, True)
    world.clock.advance(1000.25)
    world.hand.done[0](Found((("guard", Said.ALLOW), ("topic", Said.TIMEOUT))))
    world.run_soon()
    assert world.arrival.at == 1000.25
    assert world.arrival.checked == Checked(1000.0, "guard:allow,topic:timeout")
    assert world.log == ["opened", "flush", "forward"], "opened once"
    assert exchange.attempts
    assert world.driver.num_open == 1


def test_what_is_left_out_is_told_and_nobody_left_to_ask_means_at_once() -> None:
    world = Guarded((), ("guard", "topic"))
    world.send()
    assert world.hand.asked == []
    assert world.arrival.checked == Checked(1000.0, "guard:dropped,topic:dropped", dropped=True)


def test_a_denial_goes_by_the_governor_and_its_words_to_the_client_alone() -> None:
    world = Guarded()
    world.governor.script[RequestArrived] = lambda event: [Reject(event.request_id, event.checked.reason)]
    exchange = world.send()
    world.hand.done[0](Found((("guard", Said.DENY),), Reason.PLUGIN_DENIED, "guard: not this"))
    assert world.arrival.checked == Checked(1000.0, "guard:deny", Reason.PLUGIN_DENIED)
    assert "not this" not in repr(world.governor.events)
    assert exchange.answered is not None
    assert exchange.answered[0] == 400
    assert b"guard: not this" in exchange.answered[2]


def test_a_plugins_words_are_told_with_its_own_refusal_only() -> None:
    """Its tenant is gone by the time that the check has failed: that it is unknown is no matter of the plugin's."""
    world = Guarded()
    world.governor.script[RequestArrived] = lambda event: [Reject(event.request_id, Reason.UNKNOWN_KEY)]
    exchange = world.send()
    world.hand.done[0](Found((("guard", Said.TIMEOUT),), Reason.PLUGIN_FAILED, "guard"))
    assert exchange.answered is not None
    assert b"guard" not in exchange.answered[2]


def test_a_client_that_leaves_meanwhile_is_gone_and_what_is_said_late_changes_nothing() -> None:
    world = Guarded()
    exchange = world.send()
    world.driver.client_left(exchange, world.clock())
    assert world.hand.num_cancelled == 1
    assert world.governor.last(RequestRefused).reason is Reason.CLIENT_LEFT
    world.hand.done[0](Found(()))
    assert world.kinds() == [RequestRead, RequestRefused]
    assert exchange.answered is None


@pytest.mark.parametrize("struck", [RequestRead, RequestArrived])
def test_a_fault_of_ours_meanwhile_ends_the_one_request(struck: type) -> None:
    world = Guarded()

    def fault(_: Any) -> Sequence[Decision]:
        raise RuntimeError("a fault")

    def illegal(event: Any) -> Sequence[Decision]:
        raise IllegalTransition(event.request_id, "not open", "end")

    world.hands = Guard(world.driver)
    script = dict(world.governor.script)
    world.governor.script |= {struck: fault, RequestFinished: illegal, RequestCancelled: illegal}
    exchange = world.send()
    for done in world.hand.done:
        done(Found(()))
    assert world.governor.last(RequestRefused).reason is Reason.INTERNAL_ERROR
    assert exchange.answered is not None
    assert exchange.answered[0] == 500
    assert world.driver._checking.flights == {}, "nothing of it is kept"
    world.governor.script = script
    other = world.send()
    world.hand.done[-1](Found(()))
    assert other.attempts, "others go on"


def test_a_reload_without_plugins_lets_new_ones_through_and_those_in_hand_end_as_they_began() -> None:
    world = Guarded()
    first = world.send()
    world.driver.change_policy(POLICY, {})
    second = world.send()
    assert second.attempts
    world.hand.done[0](Found((("guard", Said.ALLOW),)))
    assert first.attempts
