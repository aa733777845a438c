"""Balances over entries: integers that sum to zero over all accounts, each entry counted once (law 2)."""

from collections.abc import Iterable

from plimsoll.ledger.entry import Entry

Key = tuple[int, int] | str
"""(request id, position in its Settle), or the key that a batch of grants carries."""

Account = tuple[str, str]
"""(account, period): "acme/ttft/bucket", "2026-11"."""


class Ledger:
    """The books in memory. `storage/ledger.py` keeps the same in a database."""

    def __init__(self) -> None:
        self._balances: dict[Account, int] = {}
        self._posted: dict[Key, Entry] = {}

    def post(self, key: Key, entry: Entry) -> bool:
        """Book an entry under its idempotency key; False where that key was booked before (nothing changes).

        Raises ValueError where the amount is not positive, the accounts are the same, or the key stands for another
        entry: two different facts under one key mean that somebody numbers them wrongly.
        """
        before = self._posted.get(key)
        if before is not None:
            if before != entry:
                raise ValueError(f"key {key} stands for {before}, not for {entry}")
            return False
        if entry.amount <= 0 or entry.source == entry.target:
            raise ValueError(f"not an entry: {entry}")
        self._posted[key] = entry
        self._move(entry.source, entry.period, -entry.amount)
        self._move(entry.target, entry.period, entry.amount)
        return True

    def post_all(self, request_id: int, entries: Iterable[Entry]) -> int:
        """Book the entries of one Settle; returns how many were new."""
        return sum([self.post((request_id, position), entry) for position, entry in enumerate(entries)])

    def balance(self, account: str, period: str) -> int:
        """The account's balance in that period; 0 where nothing was ever booked."""
        return self._balances.get((account, period), 0)

    def balances(self) -> dict[Account, int]:
        """Every account that was ever booked on, sorted."""
        return dict(sorted(self._balances.items()))

    def imbalance(self) -> int:
        """The sum over all accounts: 0, or something is very wrong."""
        return sum(self._balances.values())

    def __len__(self) -> int:
        return len(self._posted)

    def _move(self, account: str, period: str, amount: int) -> None:
        key = (account, period)
        self._balances[key] = self._balances.get(key, 0) + amount
