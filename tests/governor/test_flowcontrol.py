"""Token rates that follow how a tenant is served, within their bounds."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.flowcontrol import FlowControl
from plimsoll.governor.tenants import Bucket
from plimsoll.policy.policy import Adapt, Limits, Tenant
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, all_of
from tests.laws.histories import policy_of


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.booleans(), st.booleans()), max_size=300))
def test_the_factor_stays_between_floor_and_burst(history: list[tuple[float, bool, bool]]) -> None:
    flow = FlowControl(Adapt(Fraction(1, 2), Fraction(3, 2)), 0.0)
    for num, (ratio, error, spent) in enumerate(history):
        flow.spent = spent
        flow.ended(float(num), ratio, error=error)
        assert 0.5 <= flow.factor <= 1.5


def after(flow: FlowControl, rounds: int, ratio: float, *, errors: int = 0) -> float:
    """The factor after so many rounds of ten requests that ended alike."""
    start = flow._since_at
    for num in range(rounds * 10):
        flow.ended(start + num + 1.0, ratio, error=num % 10 < errors)
    return flow.factor


def test_slow_shrinks_quick_grows_and_in_between_it_returns() -> None:
    flow = FlowControl(Adapt(), 0.0)
    assert after(flow, 1, 0.9) == pytest.approx(0.8)
    assert after(flow, 10, 0.9) == pytest.approx(0.5)
    assert after(flow, 30, 0.65) == pytest.approx(1.0)
    assert after(flow, 30, 0.2) == pytest.approx(1.5)
    assert after(flow, 30, 0.65) == pytest.approx(1.0)
    assert after(flow, 1, 0.2, errors=1) == pytest.approx(0.8)
    flow.spent = True
    assert after(flow, 10, 0.2) == pytest.approx(0.5)


def test_what_is_not_known_is_neither_quick_nor_slow() -> None:
    assert after(FlowControl(Adapt(), 0.0), 10, 0.0) == 1.0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(1, 500), st.floats(0.5, 1.5)), max_size=80))
def test_no_more_is_granted_than_a_minute_and_the_burst_rate(history: list[tuple[float, int, float]]) -> None:
    bucket, at, taken = Bucket(600, 0.0), 0.0, 0.0
    for wait, amount, factor in history:
        at += wait
        bucket.retune(factor, at)
        if bucket.has(amount, at):
            bucket.take(amount)
            taken += amount
    assert taken <= 600 + 1.5 * 10.0 * at + 1e-6


@pytest.mark.parametrize(("reason", "factor"), [(Reason.ENGINE_REFUSED, 1.0), (Reason.ENGINE_ERROR, 0.5)])
def test_what_the_client_asked_wrongly_shrinks_no_rate(reason: Reason, factor: float) -> None:
    limits = Limits(tokens_per_minute=1_000_000, adapt=Adapt())
    service = Service(policy_of(tenants=(Tenant("ada", "gold", limits=limits),)), kv_blocks=10_000)
    for second in range(100):
        service.ask(1 + second)
        service.done(1.5 + second, service.num, output=0, outcome=Outcome.FAILED, reason=reason)
    tokens = service.governor.register.account("ada").tokens
    assert tokens is not None
    assert tokens.rate == pytest.approx(1_000_000 / 60.0 * factor)


def test_a_tenant_that_is_served_quickly_gets_more_than_its_rate() -> None:
    """Each takes 320 tokens of 6,000 a minute, so 18.75 a minute; with burst headroom up to half as many more."""

    def admitted(adapt: Adapt | None) -> int:
        limits = Limits(tokens_per_minute=6000, adapt=adapt)
        service = Service(policy_of(tenants=(Tenant("ada", "gold", limits=limits),)), kv_blocks=10_000)
        num = 0
        for tick in range(1200):
            for dispatch in all_of(Dispatch, service.ask(1 + tick / 2, output=160)):
                service.first(1.1 + tick / 2, dispatch.request_id)
                service.done(1.4 + tick / 2, dispatch.request_id, output=160, began=1.1 + tick / 2)
                num += 1
        return num

    plain, adaptive = admitted(None), admitted(Adapt())
    assert 1.2 * plain < adaptive < 1.55 * plain
