"""Prefix ids of a trace say what is equal at a place; a prefix cache shares only what is equal from the start."""

from plimsoll.sim.prefixchains import chained
from plimsoll.sim.tracesender import Sender
from plimsoll.sim.tracetraffic import TraceTraffic
from plimsoll.storage.tracerow import TraceRow


def row(*ids: int) -> TraceRow:
    return TraceRow(0.0, 64 * len(ids), 1, ids, 64)


def test_ids_that_stand_for_all_before_them_stay_as_they_are() -> None:
    rows = [row(1, 2, 3), row(1, 2, 4), row(5), row()]
    assert chained(rows) is rows


def test_an_id_behind_different_ids_becomes_different_prefixes() -> None:
    first, second, third = TraceTraffic("t", (Sender("a"),)).filled([row(1, 3, 4), row(2, 3, 4), row(1, 3, 5)]).rows
    assert len({*first.prefix_ids, *second.prefix_ids}) == 6
    assert first.prefix_ids[:2] == third.prefix_ids[:2]
    assert first.prefix_ids[2] != third.prefix_ids[2]


def test_an_id_at_two_places_becomes_two_prefixes() -> None:
    (only,) = chained([row(7, 7, 7)])
    assert len(set(only.prefix_ids)) == 3
