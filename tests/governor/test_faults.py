"""Faults of our own in the middle of a decision."""

from typing import Any

import pytest

from plimsoll.errors import IllegalTransition
from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import RequestRefused
from plimsoll.policy.policy import Limits, Tenant
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, only, row
from tests.laws.histories import START, policy_of

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
