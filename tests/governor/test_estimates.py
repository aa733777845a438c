"""Running quantiles against sorting, and promises one by one."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.governor.estimates import Histogram
from plimsoll.governor.prefixes import PrefixIndex
from plimsoll.governor.promises import PromiseLine

GAMMA = 2 ** (1 / 32)


@given(
    values=st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=120),
    quantile=st.sampled_from(((1, 2), (9, 10), (99, 100))),
    window=st.sampled_from((0, 7, 30)),
)
def test_cursors_follow_the_quantile(values: list[float], quantile: tuple[int, int], window: int) -> None:
    histogram = Histogram(1, window, num_windows=3)
    cursor = histogram.follow(*quantile)
    kept: list[list[float]] = [[]]
    for value in values:
        histogram.add(value)
        kept[-1].append(value)
        if window and len(kept[-1]) == window:
            kept = [*kept, []][-3:]
        seen = sorted(v for part in kept for v in part)
        if not seen:
            assert cursor.upper() is None
            continue
        assert histogram.num == len(seen)
        exact = seen[ceil(len(seen) * quantile[0] / quantile[1]) - 1]
        upper, middle = cursor.upper(), cursor.middle()
        assert upper is not None
        assert middle is not None
        assert exact <= upper * 1.000001 <= exact * GAMMA * 1.00001
        assert abs(middle - exact) <= exact * 0.0111


def test_promises_of_a_rate_follow_each_other_and_are_kept() -> None:
    line = PromiseLine(0.0, 1.0)
    assert [line.promise(100.0, 0.5, 0.5) for _ in range(4)] == [1.0, 1.0, 2.0, 2.0]
    assert not line.allows(100.6, 1.0, 1.0, 0.5), "spoken for"
    assert line.allows(101.0, 1.0, 1.0, 0.5), "the one it was promised to"
    assert line.allows(101.0, 1.0, 1.0, 0.5)
    assert line.num == 2
    assert line.allows(110.0, 1.0, 1.0, 0.5), "nobody came for the others"
    assert line.num == 0


def test_promises_cost_nothing_while_there_is_room_for_all() -> None:
    line = PromiseLine(1.3, 1.3)
    line.promise(100.0, 1.0, 1.0)
    assert line.allows(100.1, 10.0, 1.0, 1.0)
    assert not line.allows(100.1, 0.0, 1.0, 1.0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 2)), max_size=40))
def test_prefixes_are_what_was_sent(history: list[tuple[int, int, int]]) -> None:
    """Within the size that is remembered, the index knows exactly the longest prefix sent to each replica."""
    index = PrefixIndex(1000)
    sent: dict[int, set[tuple[int, ...]]] = {0: set(), 1: set(), 2: set()}
    for family, length, replica in history:
        hashes = tuple(family * 100 + block for block in range(length))
        holders = index.holders(hashes)
        for other, known in sent.items():
            held = max((len(p) for p in known if p[0] // 100 == family), default=0)
            assert holders.held(1 << other) == min(held, length)
        index.sent(hashes, holders, 1 << replica)
        sent[replica].add(hashes)


def test_a_full_index_forgets_the_oldest() -> None:
    index = PrefixIndex(8)
    for family in range(5):
        hashes = tuple(family * 100 + block for block in range(4))
        index.sent(hashes, index.holders(hashes), 1)
    assert index.holders((0, 1)).held(1) == 0
    assert index.holders((400, 401)).held(1) == 2
    index.forget(1)
    assert index.holders((400, 401)).held(1) == 0
