"""Who waited for whom, on cases that can be reckoned by hand."""

import pytest
from msgspec.structs import replace

from plimsoll.diagnosis.crowding import crowding
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.visits import visits_of
from plimsoll.requestlog.record import Record
from tests.analytics.records import START, record


def running(number: int, tenant: str, after: float, until: float, blocks: int) -> Record:
    tier = "bronze" if tenant == "batch" else "gold"
    row = record(number, after, tenant=tenant, tier=tier, ttft=0.1, lasted=until - after)
    return replace(
        row, dispatched_at=START + after, kv_blocks_reserved=blocks, finished_at=START + until, e2e=until - after
    )


def test_a_second_in_the_queue_is_split_by_what_each_holds() -> None:
    """For 4 s batch holds 75 blocks and globex 25; then, for 4 s more, batch alone."""
    waiting = replace(record(3, 1.0, ttft=8.5), dispatched_at=START + 9.0)
    rows = [running(1, "batch", 0.0, 20.0, 75), running(2, "globex", 0.0, 5.0, 25), waiting]
    visits = visits_of(rows)
    found = crowding(visits, time_parts(visits, {}))
    row = dict(zip(found.culprits, found.queue[found.victims.index("acme")], strict=True))
    held = 75 * 8 + 25 * 4
    assert row == {"acme": 0.0, "batch": pytest.approx(8.0 * 600 / held), "globex": pytest.approx(8.0 * 100 / held)}
    name, share = found.worst("acme") or ("", 0.0)
    assert name == "batch"
    assert share == pytest.approx(600 / held)
    assert found.worst("globex") is None
    assert found.engine.sum() == 0.0


def test_a_wait_with_nobody_there_is_ones_own() -> None:
    visits = visits_of([replace(record(1, 0.0, ttft=3.0), dispatched_at=START + 2.0)])
    found = crowding(visits, time_parts(visits, {}))
    assert found.queue.tolist() == [[2.0]]
    assert found.worst("acme") is None


def test_many_tenants_are_told_apart_up_to_a_bound() -> None:
    """Forty tenants hold the pool: the biggest are named, the rest are one, and nothing is lost."""
    rows = [replace(running(n, "globex", 0.0, 10.0, n + 1), tenant=f"t{n:02}") for n in range(40)]
    rows.append(replace(record(99, 1.0, ttft=5.0), dispatched_at=START + 5.0))
    visits = visits_of(rows)
    found = crowding(visits, time_parts(visits, {}))
    assert found.culprits[-1] == "(others)"
    assert len(found.culprits) == 33
    assert found.queue[found.victims.index("acme")].sum() == pytest.approx(4.0)
