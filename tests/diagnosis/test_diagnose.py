"""Incidents of the simulator are named right, and a quiet service is accused of nothing; a benchmark runs hundreds."""

import pytest

from benchmarks.episodes import ACCUSED, KINDS, VICTIM, episode
from plimsoll.diagnosis.diagnose import Mechanism, diagnose
from plimsoll.diagnosis.findings import findings
from plimsoll.diagnosis.remedies import REMEDIES, CauseKind
from plimsoll.diagnosis.visits import FIELDS, visits_of
from plimsoll.requestlog.record import Record


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
    assert set(FIELDS) <= set(Record.__struct_fields__)


def test_an_empty_log_has_no_findings() -> None:
    found = findings(visits_of([]), {})
    assert (found.num, found.tenants, found.unknown_ratio) == (0, (), None)
    assert diagnose(visits_of([]), {}).mechanism is Mechanism.NONE
