"""What happens next: the earliest of all, and among ties the one that rules say."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.sim.agenda import LEAVING, REPORT, Agenda, Wakes

instants = st.sampled_from([0.0, 1.0, 1.5, 2.0, inf])


@given(st.integers(1, 50), st.data())
def test_the_earliest_wakes_first_and_of_ties_the_lowest_number(num: int, data: st.DataObject) -> None:
    wakes, plain = Wakes(num), [inf] * num
    for number, at in data.draw(st.lists(st.tuples(st.integers(0, num - 1), instants), max_size=60)):
        wakes.set(number, at)
        plain[number] = at
        assert wakes.next_at == min(plain)
        if min(plain) < inf:
            assert wakes.next_number == plain.index(min(plain))


@given(st.lists(st.tuples(instants, st.sampled_from([REPORT, LEAVING]), st.integers(0, 9))))
def test_entries_come_by_time_then_priority_then_number(entries: list[tuple[float, int, int]]) -> None:
    agenda = Agenda()
    for entry in entries:
        agenda.put(*entry)
    taken = []
    for expected in sorted(entries):
        assert (agenda.next_at, agenda.next_priority()) == expected[:2]
        taken.append(agenda.pop())
    assert taken == sorted(entries)
    assert agenda.next_at == inf
