"""A replica is oversubscribed by what requests held of what they booked, as far as a stated probability allows."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from plimsoll.governor.events import BudgetsReported, BudgetState, ReservationOutgrown
from plimsoll.governor.kvuse import ENOUGH, KvUse
from plimsoll.policy.policy import Scheduling
from plimsoll.slo.budget import BudgetHealth
from tests.governor.service import Service
from tests.laws.histories import START, policy_of

AT_ONE_PERCENT = 2.326


def outputs(dice: Random) -> int:
    return min(2000, max(1, int(dice.lognormvariate(5.5, 0.7))))


def learnt(dice: Random, num: int, prompt: int, booked: int) -> KvUse:
    use = KvUse()
    for _ in range(num):
        use.ended(prompt, outputs(dice), 1, prompt + booked)
    return use


@pytest.mark.parametrize("prompt", [50, 400])
def test_what_runs_fills_the_engine_about_as_often_as_was_stated(prompt: int) -> None:
    """Requests that follow one another for ever, as many as the limit lets in, each with a token a step."""
    booked, capacity, steps = 640, 60_000, 8000
    full = []
    for seed in range(6):
        ratio = learnt(Random(seed), 3000, prompt, booked).ratio(capacity, AT_ONE_PERCENT)
        num = int(capacity * (1.0 + ratio) / (prompt + booked))
        assert num > 1.2 * capacity / (prompt + booked)
        dice = Random(100 + seed)
        lengths = np.array([outputs(dice) for _ in range(num)])
        ages = np.array([dice.randrange(length) for length in lengths])
        beyond = 0
        for _ in range(steps):
            beyond += num * prompt + int(ages.sum()) > capacity
            ages += 1
            for place in np.flatnonzero(ages >= lengths):
                ages[place], lengths[place] = 0, outputs(dice)
        full.append(beyond / steps)
    assert 0.001 < sum(full) / len(full) < 0.03


def test_outputs_of_one_length_that_came_at_once_would_all_be_full_at_once() -> None:
    use = KvUse()
    for _ in range(1000):
        use.ended(100, 900, 1, 1000)
    assert use.ratio(100_000, AT_ONE_PERCENT) == 0.0


def test_a_smaller_probability_allows_less_and_too_few_requests_nothing() -> None:
    dice = Random(1)
    use = learnt(dice, 2000, 400, 640)
    ratios = [use.ratio(60_000, deviations) for deviations in (0.0, 1.0, 2.3, 4.0)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] > 0.0
    assert use.ratio(5000, 2.3) < use.ratio(60_000, 2.3)  # a few are further from their mean than many
    assert learnt(dice, ENOUGH - 1, 400, 640).ratio(60_000, 0.0) == 0.0


def test_it_follows_what_comes_and_forgets_what_was_long_ago() -> None:
    dice = Random(2)
    use = learnt(dice, 40_000, 400, 640)
    assert use.ratio(60_000, 1.0) == pytest.approx(learnt(dice, 20_000, 400, 640).ratio(60_000, 1.0), abs=0.12)
    for _ in range(20_000):
        use.ended(400, 640, 1, 1040)  # from now on all are long
    assert use.ratio(60_000, 1.0) < 0.01


def service_of(blocks: int = 1000) -> Service:
    rules = Scheduling(preemption_risk=Fraction(1, 100))
    return Service(policy_of(num_replicas=1, scheduling=rules), kv_blocks=blocks)


def serve(service: Service, num: int, output: int = 160) -> None:
    for _ in range(num):
        began = service.num / 10.0
        service.ask(began, prompt=160, output=1600)
        service.first(began + 0.01, service.num)
        service.done(began + 0.05, service.num, output=output)


def limit(service: Service) -> int:
    service.report(1000.0)
    return service.governor.pools()[0].replicas[0].limit


def test_the_limit_rises_by_what_was_learnt_and_a_spent_budget_takes_it_back() -> None:
    service = service_of()
    dice = Random(3)
    assert limit(service) == 1000
    for _ in range(2 * ENOUGH):
        serve(service, 1, outputs(dice))
    risen = limit(service)
    assert 1050 < risen < 2000

    def budget(health: BudgetHealth, *, spent: bool) -> None:
        state = BudgetState("ada", "ttft", 0.97, health=health, degrade=spent)
        service.governor.handle(BudgetsReported(START + 1000.0, (state,), ()))

    budget(BudgetHealth.DEGRADED, spent=True)
    assert limit(service) == 1000
    budget(BudgetHealth.HEALTHY, spent=False)
    assert limit(service) == risen


def test_nobody_counts_before_all_that_were_sent_before_have_ended() -> None:
    """The short ones end first: to count them alone would be to learn that all are short."""
    service = service_of()
    dice = Random(4)
    serve(service, 30, 200)
    service.ask(5.0, prompt=160, output=1600)
    first = service.num
    service.first(5.1, first)
    for _ in range(2 * ENOUGH):
        serve(service, 1, outputs(dice))
    assert limit(service) == 1000
    service.done(900.0, first, output=1600)
    assert limit(service) > 1050


def test_growth_is_part_of_what_was_booked() -> None:
    """Who outgrows what was reserved has booked more from then on."""
    service = service_of()
    service.ask(1.0, prompt=160, output=1600)
    request = service.governor.pools()[0].replicas[0].in_flight[1]
    service.first(1.1, 1)
    request.output_tokens, request.sized_for = 160, 0
    request.blocks = 20
    service.governor.handle(ReservationOutgrown(START + 2.0, 1, 200))
    assert (request.grown_at, request.blocks) == (200, 10 + 400 // 16)
    assert request.booked_until(300) == 20 * 200 + 35 * 100
