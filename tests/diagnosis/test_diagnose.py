"""Incidents of the simulator are named right, and a quiet service is accused of nothing; a benchmark runs hundreds."""

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.episodes import ACCUSED, KINDS, VICTIM, episode
from plimsoll.diagnosis.diagnose import Mechanism, diagnose
from plimsoll.diagnosis.enginesignals import COLUMNS, States, engine_signals
from plimsoll.diagnosis.findings import findings
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.remedies import REMEDIES, CauseKind
from plimsoll.diagnosis.signals import signals
from plimsoll.diagnosis.timeparts import COLUMN, Part
from plimsoll.diagnosis.visits import FIELDS, MORE_FIELDS, visits_of
from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.enginestate import EngineState, ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from tests.analytics.records import START, record


@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [
        ("neighbour_long_prompts", Mechanism.NEIGHBOUR),
        ("slow_replica", Mechanism.COMPUTE),
        ("upstream", Mechanism.OUTSIDE),
        ("no_fault", Mechanism.NONE),
    ],
)
def test_what_was_injected_is_named(kind: str, mechanism: Mechanism) -> None:
    incident = episode(kind, 0)
    found = diagnose(visits_of(incident.records), incident.engines, VICTIM)
    assert found.mechanism is mechanism
    assert ({found.cause.kind} if found.cause else set()) == incident.kinds
    if found.cause is not None:
        assert found.cause.subject == incident.subject
        assert found.cause.evidence
        assert found.since is not None


def test_every_cause_has_a_remedy_and_every_kind_a_name() -> None:
    assert set(REMEDIES) == set(CauseKind)
    assert {kind for _, kinds, _ in KINDS.values() for kind in kinds} == ACCUSED


def test_only_what_live_operation_writes_is_looked_at() -> None:
    """A diagnosis reads columns of the request log and nothing else."""
    assert {*FIELDS, *MORE_FIELDS} <= set(Record.__struct_fields__)


def test_an_empty_log_has_no_findings() -> None:
    found = findings(visits_of([]), {})
    assert (found.num, found.tenants, found.unknown_ratio) == (0, (), None)
    assert diagnose(visits_of([]), {}).mechanism is Mechanism.NONE


def on_two_replicas(num: int) -> list[Record]:
    rows = [record(n + 1, 5.0 * n, dispatched_at=START + 5.0 * n) for n in range(num)]
    return [replace(row, replica="http://a" if row.request_id % 2 else "http://b") for row in rows]


def test_what_we_ended_ourselves_is_not_what_a_replica_failed() -> None:
    """While the gateway drains it ends 45 requests on a, and 15 break off on b: b alone failed."""
    rows = on_two_replicas(120)
    for n in range(60):
        end = (Outcome.FAILED, Reason.CONNECTION_LOST) if n % 4 == 0 else (Outcome.EVICTED, Reason.DRAIN_TIMEOUT)
        at = 600.0 + n
        row = record(121 + n, at, ttft=None, lasted=5.0, outcome=end[0], reason=end[1], dispatched_at=START + at)
        rows.append(replace(row, replica="http://b" if end[0] is Outcome.FAILED else "http://a"))
    found = diagnose(visits_of(rows), {}, "acme")
    accused = [cause.subject for cause in found.causes if cause.kind is CauseKind.REPLICA_FAILED]
    assert accused == ["http://b"]


def test_what_died_with_the_gateway_accuses_nobody() -> None:
    """Of such requests the log knows that they were open: whether they waited or ran is unknown, and no replica's."""
    rows = on_two_replicas(120)
    for n in range(60):
        died = Outcome.INTERRUPTED, Reason.GATEWAY_DIED
        row = record(121 + n, 600.0 + n, ttft=None, lasted=5.0, outcome=died[0], reason=died[1])
        rows.append(replace(row, pool="", replica=""))
    for n in range(20):  # and b is not there again
        rows.append(record(181 + n, 660.0 + 5.0 * n, dispatched_at=START + 660.0 + 5.0 * n))
    visits = visits_of(rows)
    parts = time_parts(visits, {})
    assert parts.seconds[120:180, COLUMN[Part.UNKNOWN]].tolist() == pytest.approx([5.0] * 60)
    assert parts.seconds[120:180, COLUMN[Part.GATEWAY_QUEUE]].sum() == 0.0
    found = diagnose(visits, {}, "acme")
    assert found.num_bad == 60
    assert found.mechanism is Mechanism.UNKNOWN
    assert {cause.kind for cause in found.causes} <= {CauseKind.NETWORK}


def test_few_slow_ones_are_held_against_answers_not_against_refusals() -> None:
    """Three of 33 are 2 s late; that its own limits refused 60 at once makes nobody later."""
    late = {30: 2.5, 31: 2.5, 32: 2.5}
    rows = [record(n + 1, 10.0 * n, ttft=late.get(n, 0.5), dispatched_at=START + 10.0 * n) for n in range(33)]
    end = Outcome.REJECTED, Reason.TENANT_RATE
    rows += [record(100 + n, 5.0 * n, ttft=None, lasted=0.0, outcome=end[0], reason=end[1]) for n in range(60)]
    found = diagnose(visits_of(rows), {}, "acme")
    assert (found.num_bad, found.excess.num) == (3, 3)
    assert found.excess.total == pytest.approx(2.0)


@pytest.mark.parametrize(("kind", "subject"), [("expert_imbalance", ""), ("cold_start", "http://r2")])
def test_what_engines_tell_names_what_rows_alone_cannot(kind: str, subject: str) -> None:
    incident = episode(kind, 0)
    visits = visits_of(incident.records)
    told = diagnose(visits, incident.engines, VICTIM, states=States(incident.states)).cause
    assert told is not None
    assert told.kind in incident.kinds
    assert told.subject == subject
    silent = diagnose(visits, incident.engines, VICTIM)
    assert {cause.kind for cause in silent.causes}.isdisjoint(ENGINE_KINDS)


ENGINE_KINDS = {
    CauseKind.EXPERT_IMBALANCE, CauseKind.ALL_TO_ALL, CauseKind.SPECULATION_COLLAPSE, CauseKind.LINK_CONTENTION,
    CauseKind.ADAPTER_LOADING, CauseKind.COLD_START, CauseKind.CHANGED_ENGINE, CauseKind.PREEMPTION_STORM,
}  # fmt: skip


def test_states_are_read_from_what_live_probes_keep_and_nothing_else() -> None:
    """A window has no column that a simulated replica fills and no report could carry."""
    told = {*ReplicaReport.__struct_fields__, *EngineState.__struct_fields__}
    counted = {"from_at", "until_at", "num_looks", "num_healthy", "num_starts", "max_waiting", "max_kv_usage"}
    assert set(ReplicaWindow.__struct_fields__) <= told | counted
    assert set(COLUMNS) <= set(ReplicaWindow.__struct_fields__)


def test_a_replica_is_looked_at_from_the_change_on_and_not_with_those_who_were_there_before() -> None:
    """The pace doubles with row 80; rows from 40 on count as there when it came."""
    visits = visits_of(on_two_replicas(120))
    parts = time_parts(visits, {})
    parts.pace[:] = np.where(np.arange(120) < 80, 1.0, 2.0)
    since = float(visits.arrived[80])
    found = signals(visits, parts, np.arange(40), np.arange(40, 120), (200.0, 400.0), since=since)
    assert [(each.pace_before, each.pace_during, each.num_during) for each in found.replicas] == [(1.0, 2.0, 20)] * 2


def windows(name: str, values: list[tuple[float | None, float | None]]) -> States:
    """Ten s each from START on; pairs (draft tokens, those that were right)."""
    rows = []
    for number, (drafts, right) in enumerate(values):
        at = START + 10.0 * number
        row = ReplicaWindow(name, at, at + 10.0, 10, 10, 0, running=4.0)
        rows.append(replace(row, draft_tokens=drafts, accepted_tokens=right))
    return States(rows)


def test_signals_are_before_and_during_and_unknown_where_nobody_told() -> None:
    states = windows("http://a", [(100, 80), (100, 70), (None, None), (200, 40)])
    (signal,) = engine_signals(states, START + 20.0, START + 40.0)
    assert list(signal.acceptance) == pytest.approx([0.75, 0.2])
    assert {signal.balancedness, signal.load_speed, signal.adapter_loads} == {(None, None)}
    (later,) = engine_signals(windows("http://a", [(None, None)] * 4), START + 20.0, START + 40.0)
    assert later.acceptance == (None, None)
    assert engine_signals(States(), START, START + 40.0) == ()
