"""Which column says what: a mapping from our fields to the names that a log uses, and rows read by it."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from plimsoll.errors import UsageError
from plimsoll.foreign import values
from plimsoll.foreign.endings import COMPLETED, Ending, of_word
from plimsoll.foreign.visit import Cells, LeftOut, Visit

INSTANTS: Final = ("arrived_at", "first_token_at", "finished_at")
DURATIONS: Final = ("ttft", "e2e", "tpot", "queued_for", "upstream_time")
COUNTS: Final = ("prompt_tokens", "cached_tokens", "output_tokens", "attempts")
TEXTS: Final = (
    "tenant", "tier", "model", "adapter", "pool", "replica", "cause", "endpoint", "session", "trace_id", "request_id",
)  # fmt: skip
OTHERS: Final = ("status", "streaming", "token_instants")
FIELDS: Final = (*INSTANTS, *DURATIONS, *COUNTS, *TEXTS, *OTHERS)
"""All that a log can tell. `token_instants`: a list, one a token, from the arrival on."""
MOST_PLANS: Final = 1000
_TIMED: Final = frozenset({*INSTANTS, *DURATIONS, "token_instants"})


class Source(Struct, frozen=True):
    """A column, and the unit of its numbers ("": told by its name, or, of an instant, by its size)."""

    key: str
    unit: str = ""


Columns = Mapping[str, tuple[Source, ...]]
"""By field: the columns that may say it, the likeliest first; the first that is not empty does."""


def columns(**named: str) -> dict[str, tuple[Source, ...]]:
    """Shorthand: `ttft="ttft_ms ttft:s"`: names by blanks, a unit after a colon."""
    return {field: tuple([_source(field, part) for part in names.split()]) for field, names in named.items()}


def read_map(entries: Iterable[str]) -> dict[str, tuple[Source, ...]]:
    """What `--map` says: FIELD=COLUMN or FIELD=COLUMN:UNIT, or a JSON file of {field: "column:unit"}.

    UsageError for a field or unit that is not known.
    """
    found: dict[str, tuple[Source, ...]] = {}
    for entry in entries:
        pairs = _file(Path(entry)) if "=" not in entry else [tuple(entry.split("=", 1))]
        for field, column in pairs:
            if field not in FIELDS:
                raise UsageError(f"--map {field}=…: no such field; known: {', '.join(FIELDS)}")
            if not column:
                raise UsageError(f"--map {field}=: names no column")
            found[field] = (_source(field, column),)
    return found


def _file(path: Path) -> list[Any]:
    try:
        named = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except OSError as error:
        raise UsageError(f"--map {path}: neither FIELD=COLUMN nor a file ({error.strerror})") from error
    except msgspec.DecodeError as error:
        raise UsageError(f'--map {path}: must be JSON like {{"arrived_at": "ts:ms"}}: {error}') from error
    return list(named.items())


def _source(field: str, text: str) -> Source:
    key, colon, unit = text.rpartition(":")
    if colon and field in _TIMED and unit in values.UNITS:
        return Source(key, unit)
    return Source(text, values.unit_of(text) if field in _TIMED else "")


class Reading:
    """Reads rows by one mapping, and counts which column said what."""

    def __init__(self, named: Columns, ending: Callable[[Cells], Ending | None] | None = None) -> None:
        """`ending` where a format says how a request ended otherwise than by one status."""
        self.named = named
        self.used: dict[tuple[str, str], int] = {}  # (field, column) → rows
        self._ending = ending
        self._plans: dict[tuple[str, ...], Columns] = {}
        self._plan: Columns = named

    def visit(self, cells: Cells) -> Visit:
        """The row in our words. LeftOut where a rule is broken."""
        self._plan = self._plan_of(tuple(cells))
        try:
            return self._visit(cells)
        except ValueError as error:
            raise LeftOut(str(error)) from None

    def _visit(self, cells: Cells) -> Visit:
        arrived = self._instant(cells, "arrived_at")
        e2e, finished = self._duration(cells, "e2e"), self._instant(cells, "finished_at")
        if arrived is None and finished is not None and e2e is not None:
            arrived = finished - e2e
        if arrived is None:
            raise LeftOut("no instant of arrival")
        first, ttft = self._instant(cells, "first_token_at"), self._duration(cells, "ttft")
        gaps, last = self._gaps(cells)
        ttft = first - arrived if ttft is None and first is not None else ttft
        if finished is None:
            end = e2e if e2e is not None else last
            if end is None:
                raise LeftOut("no end, and no duration")
            finished = arrived + end
        if finished < arrived:
            raise LeftOut("ends before it begins")
        if ttft is not None and not -1e-6 <= ttft <= finished - arrived + 1e-6:
            raise LeftOut("its first token came before its arrival or after its end")
        outcome, reason = self._ended(cells)
        counts = {field: self._count(cells, field) for field in COUNTS}
        output = counts["output_tokens"] or (len(gaps) + 1 if gaps else 0)
        tpot = self._duration(cells, "tpot")
        if tpot is None and ttft is not None and output > 1 and (outcome, reason) == COMPLETED:
            tpot = (finished - arrived - ttft if last is None else last - ttft) / (output - 1)
        return Visit(
            arrived, finished, outcome, reason, None if ttft is None else max(0.0, ttft),
            None if tpot is None else max(0.0, tpot), self._duration(cells, "queued_for"), gaps,
            counts["prompt_tokens"] or 0, counts["cached_tokens"], output, self._flag(cells),
            counts["attempts"] or 1, self._duration(cells, "upstream_time"),
            *[self._text(cells, field) for field in TEXTS],
        )  # fmt: skip

    def _plan_of(self, keys: tuple[str, ...]) -> Columns:
        """The mapping without what rows with these keys do not have: most rows of a file have the same."""
        plan = self._plans.get(keys)
        if plan is None:
            held = set(keys)
            there = {field: tuple([each for each in of if each.key in held]) for field, of in self.named.items()}
            plan = {field: of for field, of in there.items() if of}
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[keys] = plan
        return plan

    def _cell(self, cells: Cells, field: str) -> tuple[Any, Source] | None:
        for source in self._plan.get(field, ()):
            cell = cells[source.key]
            if cell is not None and not values.is_empty(cell):
                place = (field, source.key)
                self.used[place] = self.used.get(place, 0) + 1
                return cell, source
        return None

    def _instant(self, cells: Cells, field: str) -> float | None:
        found = self._cell(cells, field)
        return None if found is None else values.instant(found[0], found[1].key, found[1].unit)

    def _duration(self, cells: Cells, field: str) -> float | None:
        found = self._cell(cells, field)
        return None if found is None else values.duration(found[0], found[1].key, found[1].unit)

    def _count(self, cells: Cells, field: str) -> int | None:
        found = self._cell(cells, field)
        return None if found is None else values.count(found[0], found[1].key)

    def _text(self, cells: Cells, field: str) -> str:
        found = self._cell(cells, field)
        return "" if found is None else values.text(found[0])

    def _flag(self, cells: Cells) -> bool | None:
        found = self._cell(cells, "streaming")
        return None if found is None else values.flag(found[0], found[1].key)

    def _gaps(self, cells: Cells) -> tuple[tuple[float, ...], float | None]:
        """Gaps between tokens, and when the last came after the arrival."""
        found = self._cell(cells, "token_instants")
        if found is None or not isinstance(found[0], list) or not found[0]:
            return (), None
        scale = values.UNITS[found[1].unit or "s"]
        instants = [float(each) * scale for each in found[0]]
        gaps = tuple([later - before for before, later in pairwise(instants)])
        if any(gap < 0.0 for gap in gaps):
            raise LeftOut("a token came before the one before it")
        return gaps, instants[-1]

    def _ended(self, cells: Cells) -> Ending:
        told = self._ending(cells) if self._ending is not None else None
        if told is not None:
            return told
        found = self._cell(cells, "status")
        return COMPLETED if found is None else of_word(found[0])
