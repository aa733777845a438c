"""The books: sum zero, once each, order does not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.ledger.ledger import Ledger

entries = st.builds(
    Entry,
    kind=st.sampled_from(EntryKind),
    source=st.sampled_from(("acme/ttft/bucket", "acme/ttft/part", "world/ttft/grant")),
    target=st.sampled_from(("acme/ttft/spent:ours", "bert/ttft/bucket")),
    amount=st.integers(1, 10**9),
    period=st.sampled_from(("2026-11", "2026-12")),
)


@given(batches=st.lists(st.lists(entries, max_size=4), max_size=20), data=st.data())
def test_books_sum_to_zero_and_count_once(batches: list[list[Entry]], data: st.DataObject) -> None:
    ledger, shuffled = Ledger(), Ledger()
    keyed = list(enumerate(batches))
    for request_id, batch in keyed:
        assert ledger.post_all(request_id, batch) == len(batch)
        assert ledger.imbalance() == 0
    before = ledger.balances()
    for request_id, batch in data.draw(st.permutations(keyed)):
        assert ledger.post_all(request_id, batch) == 0
        shuffled.post_all(request_id, batch)
    assert ledger.balances() == before == shuffled.balances()
    assert len(ledger) == sum(map(len, batches))


def test_a_key_stands_for_one_entry() -> None:
    ledger = Ledger()
    spend = Entry(EntryKind.SPEND, "acme/ttft/bucket", "acme/ttft/spent:ours", 1, "2026-11")
    assert ledger.post((7, 0), spend)
    assert not ledger.post((7, 0), spend)
    with pytest.raises(ValueError, match="stands for"):
        ledger.post((7, 0), Entry(EntryKind.SPEND, "acme/ttft/bucket", "acme/ttft/spent:ours", 2, "2026-11"))
    assert ledger.balance("acme/ttft/bucket", "2026-11") == -1
    assert ledger.balance("nobody/ttft/bucket", "2026-11") == 0


@pytest.mark.parametrize("amount", [0, -3])
def test_amounts_are_positive(amount: int) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        Ledger().post("grant", Entry(EntryKind.GRANT, "world/x", "acme/x", amount, "2026-11"))
