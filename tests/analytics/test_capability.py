"""Capabilities: speeds of like load only, stalls where enough was seen, places that nobody beats."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.analytics.capability import FEW_GAPS, Capabilities, Hour, capabilities
from plimsoll.policy.matrix import FRONT, TARGET, TierClasses
from plimsoll.policy.policy import Degradation, Policy, Pool, Tier
from plimsoll.slo import steadiness
from plimsoll.slo.timing import bucket_of

POOLS = tuple(Pool(name, "m", "vllm", (f"http://{name}",)) for name in "abcd")


def hour(at: int, speed: float, *, replica: str = "r1", load: int = 3, num: int = 20, stalls: int = 0) -> Hour:
    return Hour(at * 3600.0, "a", "m", replica, load, num, 1000, 1000 / speed, FEW_GAPS, stalls)


def of(hours: list[Hour], policy: Policy | None = None) -> Capabilities:
    return capabilities(hours, Policy(pools=POOLS[:1]) if policy is None else policy, "log", 0.0, 1.0)


def test_a_slower_hour_at_more_load_is_no_variation() -> None:
    steady = [hour(at, 50.0) for at in range(4)] + [hour(at, 25.0, load=5) for at in range(4)]
    (replica,) = of(steady).replicas
    assert replica.variation == pytest.approx(0.0)
    assert replica.speed == pytest.approx(8 / (4 / 50 + 4 / 25))  # of all tokens together
    assert (replica.num, replica.hours) == (160, 4)


def test_variation_is_pooled_over_loads() -> None:
    hours = [hour(at, speed) for at, speed in enumerate((40.0, 50.0, 60.0))]
    hours += [hour(at, speed, load=5) for at, speed in enumerate((20.0, 20.0, 20.0))]
    (replica,) = of(hours).replicas
    assert replica.variation == pytest.approx((0.2**2 * 2 / 4) ** 0.5)


@pytest.mark.parametrize(
    "hours",
    [
        [hour(0, 50.0), hour(1, 25.0)],  # too few hours
        [hour(at, 50.0, load=at) for at in range(5)],  # each at a load of its own
        [hour(at, 50.0, load=-1) for at in range(5)],  # nobody said at which load
        [hour(at, 50.0, num=3) for at in range(5)],  # too few streams in each
    ],
)
def test_what_cannot_be_compared_has_no_variation(hours: list[Hour]) -> None:
    (replica,) = of(hours).replicas
    assert replica.variation is None
    assert replica.speed is not None


def test_few_gaps_say_nothing_of_stalls() -> None:
    seen = Hour(0.0, "a", "m", "r1", 1, 5, 100, 2.0, FEW_GAPS - 1, 900)
    (replica,) = of([seen]).replicas
    assert (replica.stall_ratio, replica.unsteady) == (None, False)


def test_one_that_stalls_much_more_often_is_unsteady() -> None:
    hours = [hour(0, 50.0, replica=name, stalls=stalls) for name, stalls in (("r1", 2), ("r2", 3), ("r3", 30))]
    found = of(hours)
    assert [one.unsteady for one in found.replicas] == [False, False, True]
    assert [one.stall_ratio for one in found.replicas] == [0.002, 0.003, 0.03]


def test_one_whose_speed_varies_much_more_is_unsteady() -> None:
    hours = [hour(at, 50.0 + at, replica=name) for at in range(4) for name in ("r1", "r2")]
    hours += [hour(at, speed, replica="r3") for at, speed in enumerate((50.0, 20.0, 80.0, 25.0))]
    found = of(hours).replicas
    assert [one.unsteady for one in found] == [False, False, True]
    assert found[2].variation == pytest.approx(0.632, abs=0.01)


def test_variation_as_the_others_have_it_is_steady() -> None:
    wild = (50.0, 20.0, 80.0, 25.0)
    hours = [hour(at, speed, replica=name) for at, speed in enumerate(wild) for name in ("r1", "r2", "r3")]
    assert not any(one.unsteady for one in of(hours).replicas)


def test_the_p99_is_that_of_all_streams_of_a_pool() -> None:
    slow, quick = bucket_of(0.2), bucket_of(0.02)
    one = replace(hour(0, 50.0), paces={quick: 295, slow: 2}, firsts={quick: 100})
    other = replace(hour(1, 50.0, replica="r2"), paces={quick: 98, slow: 5})
    (model,) = of([one, other]).models
    assert model.tpot_p99 == pytest.approx(0.2, rel=0.03)
    assert model.ttft_p99 is None, "of a hundred streams no P99 is told"
    (model,) = of([one, replace(other, paces={quick: 103})]).models
    assert model.tpot_p99 == pytest.approx(0.02, rel=0.03)


CLASSES = TierClasses(("fast", "slow"), ("fast", "slow"), ("fast", "slow"))


def choice(classes: TierClasses, *, front: bool = False) -> Policy:
    pools = (
        Pool("big", "m70", "vllm", ("http://b",), aliases=("x",), sla_class="slow", quality=82.0, built_for=0.8),
        Pool("mid", "m13", "vllm", ("http://m",), aliases=("x",), sla_class="fast", quality=70.0),
        Pool("lite", "m3", "vllm", ("http://l",), aliases=("x",), quality=60.0),
    )
    return Policy(
        tiers=(Tier("gold", 0, classes=classes), Tier("none", 1)),
        pools=pools,
        degradation=Degradation(levels=("small_model",), small_model=FRONT if front else TARGET),
    )


def test_whose_first_choice_a_pool_is_and_whose_small_model() -> None:
    hours = [replace(hour(0, speed), pool=pool) for pool, speed in (("big", 20.0), ("mid", 50.0), ("lite", 90.0))]
    first = {model.pool: model.serves for model in of(hours, choice(CLASSES)).models}
    assert first == {"big": (), "mid": ("gold",), "lite": ()}, "as the classes say"
    small = {model.pool: model.small_for for model in of(hours, choice(CLASSES, front=True)).models}
    assert small == {"big": (), "mid": ("big",), "lite": ("mid",)}
    within = replace(CLASSES, usual=(), within=1.0)
    assert of([], choice(within)).models[0].serves == ("gold",), "it is built for that"
    slow = [replace(each, firsts={bucket_of(1.5): 300}) for each in hours]
    serves = {model.pool: model.serves for model in of(slow[:1], choice(within)).models}
    assert serves == {"big": (), "mid": ("gold",), "lite": ()}, (
        "it has shown that it is not, and of the others mid is better"
    )


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_at_least_half_of_a_pool_is_always_steady(ratios: list[float]) -> None:
    most = steadiness.bound(ratios)
    unsteady = [ratio for ratio in ratios if steadiness.is_unsteady(ratio, most)]
    assert 2 * len(unsteady) <= len(ratios)
    assert all(ratio > steadiness.LEAST for ratio in unsteady)
    assert set(unsteady) <= {ratio for ratio in ratios if steadiness.is_unsteady(ratio, most, before=True)}


places = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | st.integers(1, 3)), min_size=4, max_size=4)


@given(places)
def test_on_the_front_is_whom_nobody_beats(given_places: list[tuple[int | None, int | None]]) -> None:
    policy = Policy(
        pools=tuple(
            Pool(pool.name, "m", "vllm", pool.replicas, quality=None if quality is None else float(quality))
            for pool, (quality, _) in zip(POOLS, given_places, strict=True)
        )
    )
    hours = [
        Hour(0.0, pool.name, "m", "r", 1, 1, 1000, 10.0 * latency, 0, 0)
        for pool, (_, latency) in zip(POOLS, given_places, strict=True)
        if latency is not None
    ]
    found = {model.pool: model.beaten_by for model in of(hours, policy).models}
    known = {pool.name: place for pool, place in zip(POOLS, given_places, strict=True) if None not in place}
    assert {name for name, beaten in found.items() if beaten is not None} == set(known)
    front = {name for name, beaten in found.items() if beaten == ()}
    for (name, (quality, latency)), (other, (its, fast)) in product(known.items(), known.items()):
        beats = its >= quality and fast <= latency and (its, fast) != (quality, latency)  # type: ignore[operator]
        assert (other in (found[name] or ())) == beats
    assert bool(front) == bool(known)
