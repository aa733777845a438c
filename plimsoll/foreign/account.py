"""What was made of each file: its format and why, which column said what, what it cannot tell, what was left out."""

from typing import Final

from msgspec import Struct

from plimsoll.foreign.visit import Visit

CANNOT: Final = {
    "ttft": "when the first token came (no TTFT, no TPOT)",
    "gaps": "gaps between tokens (no ITL)",
    "queued_for": "how long a request waited in a queue",
    "prompt_tokens": "prompt lengths (no classes of length)",
    "cached_tokens": "hits of the prefix cache",
    "output_tokens": "output lengths",
    "tenant": "whose requests they are",
    "tier": "tiers",
    "model": "which model answered",
    "replica": "which replica answered",
    "cause": "what caused a request",
    "upstream_time": "time spent upstream",
}
"""What a log may lack → in words. A file that lacks it in every row cannot tell it: it is unknown, not zero."""


_NOTHING: Final = (None, "", 0, ())


class RuleCount(Struct, frozen=True):
    """How many rows a rule left out, and where the first of them stands."""

    rule: str
    num: int
    first_row: int


class ColumnUse(Struct, frozen=True):
    """A field of ours, the column that said it, and for how many rows."""

    field: str
    column: str
    num: int


class FileAccount(Struct, frozen=True):
    """One file."""

    file: str
    format: str
    reason: str
    num_rows: int
    num_kept: int
    left_out: tuple[RuleCount, ...]
    columns: tuple[ColumnUse, ...]
    cannot_tell: tuple[str, ...]
    notes: tuple[str, ...]


class Account(Struct, frozen=True):
    """All files. `directory` holds their rows as a data directory of ours."""

    directory: str
    num: int
    num_tenants: int
    files: tuple[FileAccount, ...]
    notes: tuple[str, ...]


class Counting:
    """An account in the making."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.num_kept = 0
        self.num_open = 0
        self._rules: dict[str, list[int]] = {}
        self._untold = dict.fromkeys(CANNOT)

    def leave_out(self, row: int, rule: str) -> None:
        """A row that is not counted."""
        self.num_rows += 1
        count = self._rules.setdefault(rule, [0, row])
        count[0] += 1

    def keep(self, visit: Visit) -> None:
        """A row that is."""
        self.num_rows += 1
        self.num_kept += 1
        for field in tuple(self._untold):
            if getattr(visit, field) not in _NOTHING:
                del self._untold[field]

    def left_out(self) -> tuple[RuleCount, ...]:
        """By rule, the most frequent first."""
        ranked = sorted(self._rules.items(), key=lambda item: (-item[1][0], item[0]))
        return tuple([RuleCount(rule, num, first) for rule, (num, first) in ranked])

    def cannot_tell(self) -> tuple[str, ...]:
        """In words."""
        return tuple([CANNOT[field] for field in self._untold]) if self.num_kept else ()
