"""Faults of our own in the middle of a decision."""

from typing import Any

import pytest

from plimsoll.errors import IllegalTransition
from plimsoll.governor.decisions import Dispatch, Enqueue, Expire, Settle
from plimsoll.governor.events import RequestRefused
from plimsoll.policy.policy import Limits, Pool, Tenant
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, all_of, only, row
from tests.laws.histories import START, policy_of

ONE_PLACE = Pool("chat", "m", "vllm", ("http://r0",), max_concurrency=1)
EVER = 1e6  # s
NO_HASH: Any = []
"""What the hands never send: looking it up in the index of prefixes raises, compiled or not."""


def test_a_fault_of_our_own_half_way_leaves_no_counts_behind() -> None:
    """The hands give such a request up: they say that it is refused, and it is settled and counted once."""
    tenants = (Tenant("ada", "gold", limits=Limits(concurrency=1, tokens_per_minute=1000)),)
    service = Service(policy_of(tenants=tenants))
    with pytest.raises(TypeError):
        service.ask(1, prompt=400, output=100, prefix_hashes=(NO_HASH,))
    told = row(service.governor.handle(RequestRefused(START + 1, service.num, "ada", Reason.INTERNAL_ERROR)))
    assert (told.outcome, told.reason) == (Outcome.REJECTED, Reason.INTERNAL_ERROR)
    (counts,) = service.governor.snapshot(START + 1).counts
    assert (counts.received, counts.by_state["rejected"], counts.by_state.get("received", 0)) == (1, 1, 0)
    assert only(Dispatch, service.ask(1.1, prompt=400, output=100)), "neither slot nor tokens are held"
    with pytest.raises(IllegalTransition):
        service.governor.handle(RequestRefused(START + 2, service.num, "ada", Reason.INTERNAL_ERROR))


def waiting_for_a_place(service: Service) -> int:
    """A request that will have expired by EVER."""
    only(Dispatch, service.ask(1, prompt=400, output=100))
    return only(Enqueue, service.ask(1.1, prompt=400, output=100)).request_id


def test_who_expired_in_an_event_that_a_fault_cut_short_is_answered_with_the_next_one() -> None:
    service = Service(policy_of(pools=(ONE_PLACE,)))
    waiting = waiting_for_a_place(service)
    with pytest.raises(TypeError):
        service.ask(EVER, prompt=400, output=100, prefix_hashes=(NO_HASH,))
    said = service.timer(EVER + 1)
    assert only(Expire, said).request_id == row(said).request_id == waiting
    assert not all_of(Settle, service.timer(EVER + 2)), "it is said once"


def test_who_expired_as_hands_told_something_impossible_of_it_has_one_row() -> None:
    """As hands do that give a request up: one after the other of what its state may allow."""
    service = Service(policy_of(pools=(ONE_PLACE,)))
    waiting = waiting_for_a_place(service)
    at = START + EVER
    with pytest.raises(IllegalTransition):
        service.done(EVER, waiting, outcome=Outcome.FAILED, reason=Reason.INTERNAL_ERROR)
    told = row(service.governor.handle(RequestRefused(at, waiting, "ada", Reason.INTERNAL_ERROR)))
    assert (told.request_id, told.outcome) == (waiting, Outcome.EXPIRED)
    counts = next(each for each in service.governor.snapshot(at).counts if each.received)
    assert (counts.received, counts.by_state["expired"], counts.by_state["dispatched"]) == (2, 1, 1)
