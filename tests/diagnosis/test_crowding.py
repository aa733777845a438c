"""Who waited for whom, on cases that can be reckoned by hand."""

import numpy as np
import pytest
from msgspec.structs import replace

from plimsoll.diagnosis.crowding import crowding
from plimsoll.diagnosis.diagnose import diagnose
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


def test_who_was_waited_for_as_long_before_is_no_culprit_however_many_tenants_there_are() -> None:
    """Of 40 tenants t00 holds least: 100 of 4,780 blocks in waits of 0.8 s. Then it and a surge hold the pool, t00 100
    of 10,755 in waits of 1.8 s: as many seconds as before, so that all that is waited more is for the surge.
    """
    held = [(0.0, f"t{n:02}", 100 + n) for n in range(40)] + [(1000.0, "t00", 100), (1000.0, "surge", 10_655)]
    rows = [replace(running(0, "globex", at, at + 1000.0, blocks), tenant=name) for at, name, blocks in held]
    for begin, waited in ((0.0, 0.8), (1000.0, 1.8)):
        arrivals = [begin + 10.0 * n + 1.0 for n in range(60)]
        rows += [replace(record(0, at, ttft=waited + 0.1), dispatched_at=START + at + waited) for at in arrivals]
    found = diagnose(visits_of(rows), {}, "acme")
    assert found.num_bad == 60
    assert found.culprits["surge"] == pytest.approx(1.0, abs=1e-6)
    assert found.culprits.get("t00", 0.0) == pytest.approx(0.0, abs=1e-6)


def test_who_was_kept_by_others_prompts_passes_the_wait_on_to_them() -> None:
    """Globex holds the only place for 6 s, of which 4 went into a prompt of batch: two thirds of a wait are batch's."""
    waiting = replace(record(3, 1.0, ttft=5.5), dispatched_at=START + 6.0)
    visits = visits_of([running(1, "globex", 0.0, 6.0, 1), running(2, "batch", 0.0, 0.1, 1), waiting])
    parts = time_parts(visits, {})
    holder = int(np.flatnonzero(visits.tenant.codes == visits.tenant.code("globex"))[0])
    parts.crowded[holder, visits.tenant.code("batch")] = 4.0
    found = crowding(visits, parts)
    row = dict(zip(found.culprits, found.queue[found.victims.index("acme")], strict=True))
    assert row["batch"] == pytest.approx(5.0 * 2 / 3)
    assert row["globex"] == pytest.approx(5.0 / 3)
