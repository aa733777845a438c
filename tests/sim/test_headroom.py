"""Headroom: the search finds a break where there is one, and the break is where queueing theory puts it."""

from itertools import count
from math import exp, factorial, inf, log

import msgspec
import pytest

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.sim.headroom import MOST, TOLERANCE, Search, headroom
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.trial import Breach, Kept, Key, Spent, Trial, run_trial
from plimsoll.sim.workload import Workload

KEY = Key("a", "t", "ttft")


def trial(factor: float, seed: int, breaks_at: float, steep: float = 8.0) -> Trial:
    """One promise whose burn passes 1 at `breaks_at`."""
    num = 100_000
    bad = round(num * 0.01 * min(50.0, (factor / breaks_at) ** steep) + (1e-9 if factor < breaks_at else 1))
    breach = Breach(KEY, bad, {"p": bad}, {}, 0.5, 0.0, 1.0, bad, None, None)
    return Trial(factor, seed, 1000, 600, 10.0, (Kept(KEY, num, bad, 0.01),), (breach,))


def searched(breaks_at: float, seed: int = 1, start: float = 1.0) -> Search:
    search = Search(seed, start)
    for _ in range(30):
        factor = search.next()
        if factor is None:
            return search
        search.tell(trial(factor, seed, breaks_at))
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("start", [1.0, 1.9])
@pytest.mark.parametrize("breaks_at", [0.1, 0.7, 0.999, 1.001, 1.8, 2.0, 9.0])
def test_the_search_ends_at_the_break(breaks_at: float, start: float) -> None:
    search = searched(breaks_at, start=start)
    assert search.factor is not None
    assert abs(log(search.factor / breaks_at)) <= TOLERANCE
    assert len(search.trials) <= 16


def test_where_nothing_breaks_the_search_gives_up() -> None:
    search = searched(inf)
    assert search.factor is None
    assert search.trials[-1].factor >= MOST
    found = headroom([search], ("a",), [], complete=True)
    assert found.factor.mean is None
    assert not found.complete
    assert found.lines[0].beyond == pytest.approx(search.trials[-1].factor)


def test_a_good_guess_costs_few_trials() -> None:
    assert len(searched(1.83, start=1.9).trials) < len(searched(1.83).trials)


def test_the_answer_is_the_mean_of_the_seeds() -> None:
    found = headroom([searched(2.0, 1), searched(2.2, 2), searched(2.1, 3)], ("a",), [], complete=True)
    assert found.factor.mean == pytest.approx(2.1, rel=0.02)
    assert found.factor.low is not None
    assert found.factor.high is not None
    assert found.factor.low < 2.0
    assert found.factor.high > 2.2
    assert found.first == (("a t ttft", 3),)
    assert found.breach is not None
    assert found.lines[0].factor == pytest.approx(2.1, rel=0.06)
    assert found.lines[0].now == pytest.approx((1 / 2.1) ** 8, rel=0.2)


def test_few_events_break_only_where_that_is_sure() -> None:
    assert not Kept(KEY, 100, 2, 0.01).broken
    assert Kept(KEY, 100, 6, 0.01).broken
    assert Kept(KEY, 1000, 11, 0.01).broken
    assert Kept(KEY, 1000, 10, 0.01).broken is False
    assert Kept(KEY, 0, 0, 0.01).burn is None


SERVICE = 0.1  # s of each request: one step, one request at a time
PROFILE = EngineProfile(
    "one", "test", StepCoefficients(a=SERVICE), StepCoefficients(a=SERVICE), max_num_seqs=1, prefix_caching=False
)
TEXT = """
plimsoll: 1
tiers: [{name: t, rank: 0, share: 100%, objectives: [{sli: ttft, below: 500ms, target: 90%}]}]
tenants: [{name: a, tier: t}, {name: b, tier: t}]
pools: [{name: p, model: m, engine: vllm, profile: one, replicas: ["http://r"]}]
"""
POLICY: Policy = parse(TEXT, "headroom")


def load(rate: float, others: float = 0.0, duration: float = 600.0) -> Workload:
    prompt, output = Lengths(64), Lengths(1)
    profiles = (
        TenantProfile("a", rate, prompt=prompt, output=output),
        TenantProfile("b", others, prompt=prompt, output=output),
    )
    return Workload(profiles[: 2 if others else 1], duration, "m")


def waits_at_most(time: float, rate: float) -> float:
    """P(W ≤ t) of M/D/1 (Erlang 1909; Tijms, A First Course in Stochastic Models, 9.2.3)."""
    total = 0.0
    for k in count():
        if k * SERVICE > time:
            return (1 - rate * SERVICE) * total
        x = rate * (k * SERVICE - time)
        total += x**k / factorial(k) * exp(-x)
    raise AssertionError


def rate_that_holds(time: float, target: float) -> float:
    low, high = 0.1, 9.99
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if waits_at_most(time - SERVICE, middle) >= target else (low, middle)
    return low


def test_shortly_before_and_after_what_queueing_theory_says() -> None:
    """M/D/1: at 12 % below the rate that holds everything is kept, at 12 % above it is not."""
    rate = rate_that_holds(0.5, 0.9)
    below, above = (run_trial(POLICY, {"one": PROFILE}, load(rate), f, None, 1, {}) for f in (0.88, 1.12))
    assert not below.broken
    assert [kept.key.objective for kept in above.broken] == ["ttft"]
    assert above.breaches[0].pools == {"p": above.breaches[0].num_bad}
    assert below.num / 600.0 == pytest.approx(0.88 * rate, rel=0.05)


@pytest.mark.long
def test_the_break_is_where_queueing_theory_puts_it() -> None:
    rate = rate_that_holds(0.5, 0.9) / 1.5  # so that the break is to be found at 1.5
    searches = [Search(seed) for seed in (1, 2, 3)]
    for search in searches:
        while (factor := search.next()) is not None:
            search.tell(run_trial(POLICY, {"one": PROFILE}, load(rate, duration=2000.0), factor, None, search.seed, {}))
    found = headroom(searches, ("a",), [], complete=True)
    assert found.factor.mean == pytest.approx(1.5, rel=0.03)
    assert found.first[0] == ("a t ttft", 3)
    assert found.breach is not None
    assert found.breach.pools == {"p": found.breach.num_bad}
    assert found.rate_now == pytest.approx(rate, rel=0.03)


def test_only_the_named_tenant_grows() -> None:
    once = run_trial(POLICY, {"one": PROFILE}, load(2.0, 2.0, 300.0), 1.0, ("a",), 1, {})
    twice = run_trial(POLICY, {"one": PROFILE}, load(2.0, 2.0, 300.0), 2.0, ("a",), 1, {})
    assert twice.num_chosen == pytest.approx(2 * once.num_chosen, rel=0.1)
    assert twice.num - twice.num_chosen == once.num - once.num_chosen


def test_a_month_half_spent_leaves_less() -> None:
    quiet = run_trial(POLICY, {"one": PROFILE}, load(2.0, duration=300.0), 1.0, None, 1, {})
    (kept,) = [each for each in quiet.kept if each.key.objective == "ttft"]
    assert kept.allowed_ratio == pytest.approx(0.1)
    assert not kept.broken
    rate = kept.num_judged / 300.0
    spent = {kept.key: Spent(10_000, 1_000 + 500, 5_000 / rate)}  # 500 too many so far, as many again to come
    late = run_trial(POLICY, {"one": PROFILE}, load(2.0, duration=300.0), 1.0, None, 1, spent)
    (now,) = [each for each in late.kept if each.key.objective == "ttft"]
    assert now.allowed_ratio == pytest.approx(0.0, abs=1e-9)
    assert now.num_bad == kept.num_bad


def test_a_run_can_be_ended_early() -> None:
    whole = run_trial(POLICY, {"one": PROFILE}, load(2.0, duration=300.0), 1.0, None, 1, {})
    part = run_trial(POLICY, {"one": PROFILE}, load(2.0, duration=300.0), 1.0, None, 1, {}, lambda at, _: at >= 100.0)
    assert not part.complete
    assert 0 < part.num < whole.num
    assert msgspec.json.encode(whole)
