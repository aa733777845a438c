"""Learns sessions from what was sent: how many turns, how long between them, what each adds, what all begin with.

A conversation is what one session id names or, in a trace with prefix blocks and no session ids, the requests of which
each begins with all whole blocks of the one before it and is longer than that and its answer. How many turns there are
and how long apart is told by `endings.py`, which does not take the end of the log for that of its conversations.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.sim.endings import Table, at_share, endings_of
from plimsoll.storage.tracerow import TraceRow

Conversation = list[TraceRow]

FEWEST_PAIRS: Final = 30
"""Turns that follow another; from fewer no session is learnt."""
GROWING: Final = 0.8  # of them must hold the conversation so far
MOSTLY: Final = 0.5  # of conversations or requests must tell a thing for it to be the tenant's
MOST: Final = 0.8  # of conversations must share blocks for them to be what all begin with
_TRACE: Final = "for such prefix hits use the trace itself (traces:)"
LATE: Final = 0.95  # quantile of the times between turns: what began so late had not begun before the log
_STEP: Final = 1e-4  # share of requests between two knots of a table that jumps
_FEW_VALUES: Final = 12  # so many different counts are told one by one
LEVELS: Final = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


class Sessions(Struct, frozen=True):
    """What conversations are like. Times in s, lengths in tokens."""

    num: int
    turns: Table
    think: Table  # s from one turn's arrival to the next one's
    firsts: tuple[tuple[int, int], ...]  # (prompt, output) of first turns, the shared beginning left out
    laters: tuple[tuple[int, int], ...]  # (what the prompt adds to the conversation, output) of later ones
    starts: tuple[float, ...]  # s from the start of the log


class Beginning(Struct, frozen=True):
    """What conversations of a tenant have in common: one of `variants` texts of `tokens` tokens."""

    tokens: int = 0
    variants: int = 1


def conversations(rows: Sequence[TraceRow]) -> list[Conversation]:
    """One tenant's rows, which are in order of time, by conversation; each in order of its start."""
    named: dict[str, Conversation] = {}
    found: list[Conversation] = []
    loose: list[TraceRow] = []
    for row in rows:
        if not row.session:
            loose.append(row)
        elif row.session in named:
            named[row.session].append(row)
        else:
            named[row.session] = [row]
            found.append(named[row.session])
    found += _chained(loose)
    return sorted(found, key=lambda each: each[0].at)


def _chained(rows: Sequence[TraceRow]) -> list[Conversation]:
    """By prefix blocks; where several texts follow a block it is a shared beginning and says nothing."""
    following: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows:
        for block, after in pairwise(_whole(row)):
            following[block].add(after)
    found: list[Conversation] = []
    ends: dict[int, Conversation] = {}  # by the last whole block of its latest prompt
    for row in rows:
        conversation = next((ends[block] for block in reversed(row.prefix_ids) if block in ends), None)
        if conversation is None or not _follows(row, conversation[-1]):
            conversation = []
            found.append(conversation)
        conversation.append(row)
        whole = _whole(row)
        if whole and len(following[whole[-1]]) < 2:
            ends[whole[-1]] = conversation
    return found


def _whole(row: TraceRow) -> tuple[int, ...]:
    """Its blocks without the last one, where that is not full: the next turn has another one there."""
    return row.prefix_ids[: row.prompt_tokens // row.block_tokens] if row.block_tokens else ()


def _follows(later: TraceRow, earlier: TraceRow) -> bool:
    """Whether a prompt can hold the one before it and its answer."""
    return later.prompt_tokens >= earlier.prompt_tokens + earlier.output_tokens


def sessions_of(found: Sequence[Conversation], shared: int, duration: float) -> tuple[Sessions | None, str]:
    """What conversations are like, or None; and why there is nothing, or how far it may be off."""
    pairs = [pair for each in found for pair in pairwise(each)]
    if len(pairs) < FEWEST_PAIRS:
        return None, f"sessions are not learnt: {len(pairs)} turns that follow another are too few" if pairs else ""
    growing = [pair for pair in pairs if _follows(pair[1], pair[0])]
    if len(growing) < GROWING * len(pairs):
        part = 1.0 - len(growing) / len(pairs)
        return None, f"sessions are not learnt: {part:.0%} of their later prompts do not hold the conversation so far"
    ended = endings_of(found, duration)
    late = at_share(ended.gaps, LATE)
    whole, note = [each for each in found if each[0].at >= late], ""
    if late > duration / 4:
        whole, note = list(found), "sessions last as long as the log: those that began before it are taken as beginning"
    return Sessions(
        num=len(whole),
        turns=counts_table(ended.turns),
        think=tuple((level, at_share(ended.gaps, level)) for level in LEVELS),
        firsts=tuple((max(1, each[0].prompt_tokens - shared), each[0].output_tokens) for each in whole),
        laters=tuple(
            (max(1, later.prompt_tokens - earlier.prompt_tokens - earlier.output_tokens), later.output_tokens)
            for earlier, later in growing
        ),
        starts=tuple(each[0].at for each in found),
    ), note


def counts_table(steps: Table) -> Table:
    """Shares of counts, which rise to 1, as a table that a draw can be read from: with jumps where they are few."""
    if len(steps) > _FEW_VALUES:
        return tuple((level, at_share(steps, level)) for level in LEVELS)
    table: list[tuple[float, float]] = []
    before = 0.0
    for share, value in steps:
        if share > before + 2 * _STEP:
            table += [(before + (_STEP if before else 0.0), value), (share, value)]
            before = share
    return (*table[:-1], (1.0, table[-1][1]))


def beginning_of(found: Sequence[Conversation]) -> tuple[Beginning, Iterable[str]]:
    """What conversations begin with, from prefix blocks where there are some, else from what was cached."""
    firsts = [each[0] for each in found]
    if any(row.prefix_ids for row in firsts):
        return _by_blocks(firsts)
    if any(row.cached_tokens for row in firsts):
        return _by_hits(firsts)
    return Beginning(), ()


def _by_blocks(firsts: Sequence[TraceRow]) -> tuple[Beginning, Iterable[str]]:
    seen = Counter(block for row in firsts for block in row.prefix_ids)
    depths = [
        next((n for n, block in enumerate(row.prefix_ids) if seen[block] < 2), len(row.prefix_ids)) for row in firsts
    ]
    depth, block = int(np.quantile(depths, 1 - MOST, method="lower")), firsts[0].block_tokens
    if not depth:
        part = sum(map(bool, depths)) / len(depths)
        return Beginning(), _told(part > 0, f"{part:.0%} of conversations begin as another does: {_TRACE}")
    texts = Counter(row.prefix_ids[depth - 1] for row, each in zip(firsts, depths, strict=True) if each >= depth)
    notes = [f"the shared beginning is known to a block of {block} tokens"]
    deep = float(np.quantile(depths, MOST))
    if deep > 1.5 * depth:
        notes.append(f"some share up to {deep * block:,.0f} tokens, of which all are given {depth * block:,}: {_TRACE}")
    return Beginning(depth * block, _variants(texts)), notes


def _variants(texts: Counter[int]) -> int:
    """How many equally frequent texts would meet as often as these do (the inverse of Simpson's index)."""
    num = texts.total()
    meetings = sum(count * (count - 1) for count in texts.values())
    return max(1, round(num * (num - 1) / meetings)) if meetings else len(texts)


def _by_hits(firsts: Sequence[TraceRow]) -> tuple[Beginning, Iterable[str]]:
    """Who hits what others left hits the beginning; who misses is the first of a text, or comes after its eviction."""
    known = [row.cached_tokens for row in firsts if row.cached_tokens is not None]
    hits = [cached for cached in known if cached]
    if len(hits) < MOSTLY * len(known):
        return Beginning(), _told(
            bool(hits),
            f"{len(hits) / len(known):.0%} of conversations found their beginning cached: too few to tell what it is",
        )
    return Beginning(int(np.median(hits)), max(1, len(known) - len(hits))), [
        f"variants are the {len(known) - len(hits)} beginnings that were not cached: the most that there can be"
    ]


def _told(whether: bool, words: str) -> Iterator[str]:
    if whether:
        yield words
