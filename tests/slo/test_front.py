"""Which pool is best: on the front whatever was measured, and not another one by every little change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.front import MARGIN, Candidate, beaten_by, in_order, keeps, smaller

pools = st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(1, 6)), min_size=1, max_size=6).map(
    lambda made: [Candidate(f"p{i}", float(quality), time) for i, (quality, time) in enumerate(made)]
)


@given(pools, st.integers(1, 6))
def test_the_first_of_those_that_keep_a_limit_is_beaten_by_none(given_pools: list[Candidate], limit: int) -> None:
    judged = [Candidate(p.name, p.quality, p.time, keeps(p.time, float(limit))) for p in given_pools]
    by_name = {each.name: each for each in judged}
    order = [name for group in in_order(judged) for name in group]
    assert sorted(order) == sorted(by_name), "all are there, once"
    first = by_name[order[0]]
    if any(each.keeps for each in judged):
        assert first.keeps
        assert beaten_by(first, judged) == ()
    places = [{True: 0, None: 1, False: 2}[by_name[name].keeps] for name in order]
    assert places == sorted(places)


@given(pools, pools)
def test_where_a_degraded_request_goes_is_quicker_and_beaten_by_none(
    own: list[Candidate], others: list[Candidate]
) -> None:
    mine = Candidate("own", own[0].quality, own[0].time)
    found = smaller(mine, others)
    by_name = {each.name: each for each in others}
    if found and mine.time is not None:
        best = by_name[found[0]]
        assert best.time is not None
        assert best.time < mine.time
        assert beaten_by(best, others) == ()


@pytest.mark.parametrize(
    ("time", "before", "after"),
    [(100.0, None, True), (101.0, None, False), (109.0, True, True), (111.0, True, False), (91.0, False, False),
     (89.0, False, True), (None, True, None)],
)  # fmt: skip
def test_a_limit_near_which_it_is_does_not_come_and_go(
    time: float | None, before: bool | None, after: bool | None
) -> None:
    assert keeps(time, 100.0, before=before) is after
    assert MARGIN == 0.1


def test_one_that_was_quicker_stays_so_until_it_is_not() -> None:
    own, other = Candidate("own", 80.0, 0.030), Candidate("other", 60.0, 0.028)
    assert smaller(own, [other]) == []
    assert smaller(own, [other], frozenset({"other"})) == ["other"]
    assert smaller(own, [Candidate("other", 60.0, 0.031)], frozenset({"other"})) == []
    assert smaller(Candidate("own", 80.0, None), [other]) == [], "of what is not known nobody is quicker"
