"""One request's verdicts as one integer, so that requests are added up by one addition each.

Four counts an objective lie side by side in it. A count in a row has at most 64 bits and no log has 2^32 rows, so no
sum ever runs over into the next field.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from plimsoll.slo.verdict import Judgement, Verdict

FIELD: Final = 96
"""Bits of one count."""
_WIDTH: Final = 4 * FIELD
_MASK: Final = (1 << FIELD) - 1
_ONE_CENSORED: Final = 1 << 2 * FIELD
_ONE_REQUEST: Final = 1 << 3 * FIELD
_CENSORED: Final = Judgement.CENSORED
_decoder: Final = msgspec.msgpack.Decoder(tuple[Verdict, ...])

Names = tuple[str, ...]
"""Objectives, in the order of a request's verdicts."""
Tallied = tuple[Names, int]
"""What one request adds: to which objectives, and how much to all their counts at once."""


class Tally(NamedTuple):
    """Counts of one objective."""

    objective: str
    good: int
    bad: int
    censored: int  # requests
    requests: int  # with at least one judged event


def tallied(verdicts: Iterable[Verdict]) -> Tallied:
    """What a request with these verdicts adds."""
    names, counts = [], 0
    for place, verdict in enumerate(verdicts):
        names.append(verdict.objective)
        if verdict.num_good or verdict.num_bad:
            counts += (verdict.num_good + (verdict.num_bad << FIELD) + _ONE_REQUEST) << _WIDTH * place
        elif verdict.judgement is _CENSORED:
            counts += _ONE_CENSORED << _WIDTH * place
    return _same(tuple(names)), counts


@lru_cache(maxsize=16_384)
def tallied_row(verdicts: bytes) -> Tallied:
    """The same from a row's bytes. Rows that differ only in when and whose have the same ones again and again."""
    return tallied(_decoder.decode(verdicts))


@lru_cache(maxsize=1024)
def _same(names: Names) -> Names:
    """One object for equal names: dictionaries then compare them by identity."""
    return names


def tallies_of(names: Names, counts: int) -> list[Tally]:
    """The counts in a sum, of those objectives that any request added to."""
    found = []
    for place, objective in enumerate(names):
        of = counts >> _WIDTH * place
        tally = Tally(objective, *[of >> FIELD * field & _MASK for field in range(4)])
        if any(tally[1:]):
            found.append(tally)
    return found
