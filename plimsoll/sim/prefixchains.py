"""Prefix ids of a trace as prefix caches know them: equal ids are equal prompts up to there, not equal tokens there."""

from collections.abc import Sequence

from msgspec.structs import replace

from plimsoll.engine.blocks import chain
from plimsoll.storage.tracerow import TraceRow


def chained(rows: Sequence[TraceRow]) -> Sequence[TraceRow]:
    """The rows with each id made to stand for all before it as well; as they are where every id does already.

    A trace says that "equal ids at equal places are equal tokens": of (1, 3) and (2, 3) no cache can share the 3.
    """
    if _are_chained(rows):
        return rows
    return [replace(row, prefix_ids=_chain_of(row.prefix_ids)) if row.prefix_ids else row for row in rows]


def _are_chained(rows: Sequence[TraceRow]) -> bool:
    """Whether each id follows the same id wherever it comes, so that it follows the same ids."""
    before: dict[int, int | None] = {}
    for row in rows:
        previous = None
        for each in row.prefix_ids:
            if before.setdefault(each, previous) != previous:
                return False
            previous = each
    return True


def _chain_of(ids: tuple[int, ...]) -> tuple[int, ...]:
    found, parent = [], 0
    for each in ids:
        parent = chain(parent, each)
        found.append(parent)
    return tuple(found)
