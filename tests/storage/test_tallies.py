"""Verdicts added up as integers come to the same as one by one, whatever they are."""

from collections import Counter, defaultdict

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.verdict import Charge, Judgement, Verdict
from plimsoll.storage.tallies import Names, tallied, tallied_row, tallies_of

counts = st.integers(0, 3) | st.integers(0, 2**64 - 1)
verdicts = st.builds(
    Verdict,
    st.sampled_from(["ttft", "itl", "e2e", "availability"]),
    st.sampled_from(Judgement),
    counts,
    counts,
    st.none() | st.sampled_from(Charge),
)
requests = st.lists(st.lists(verdicts, max_size=4, unique_by=lambda each: each.objective), max_size=20)


def one_by_one(all_of: list[list[Verdict]]) -> dict[str, Counter[str]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for request in all_of:
        for each in request:
            if each.num_good or each.num_bad:
                found[each.objective].update(good=each.num_good, bad=each.num_bad, requests=1)
            elif each.judgement is Judgement.CENSORED:
                found[each.objective].update(censored=1)
    return dict(found)


def summed(sums: dict[Names, int]) -> dict[str, Counter[str]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for names, total in sums.items():
        for each in tallies_of(names, total):
            found[each.objective].update(good=each.good, bad=each.bad, censored=each.censored, requests=each.requests)
    return dict(found)


@given(requests)
def test_sums_of_integers_are_the_counts(all_of: list[list[Verdict]]) -> None:
    sums: defaultdict[Names, int] = defaultdict(int)
    for request in all_of:
        names, adds = tallied(tuple(request))
        assert (names, adds) == tallied_row(msgspec.msgpack.encode(tuple(request)))
        sums[names] += adds
    assert summed(sums) == one_by_one(all_of)
