"""An engine's silence is time without a sign of life while requests are there; it is nobody's doing."""

import numpy as np
import pytest
from msgspec.structs import replace

from plimsoll.diagnosis.crowding import crowding
from plimsoll.diagnosis.curves import Running
from plimsoll.diagnosis.diagnose import diagnose
from plimsoll.diagnosis.enginesignals import States
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.diagnosis.silences import Life, Silences, silences
from plimsoll.diagnosis.timeparts import COLUMN, Part
from plimsoll.diagnosis.visits import Floats, visits_of
from plimsoll.engine import profiles
from plimsoll.requestlog.enginestate import ReplicaWindow
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from tests.analytics.records import START, record

ENGINE = profiles.load("tiny-llamacpp")
IDLE = Running(np.zeros(0), np.zeros(0))


def life(*rows: tuple[float, float, float, float]) -> Life:
    """Rows of (dispatched, first token, ended, longest gap)."""
    dispatched, first, ended, gap = (np.array(column) for column in zip(*rows, strict=True))
    return Life(dispatched, first, ended, gap, np.ones(len(rows), bool))


def spans(found: Silences) -> list[tuple[float, float]]:
    return list(zip(found.begin.tolist(), found.end.tolist(), strict=True))


def test_nothing_came_while_somebody_was_there() -> None:
    """One decodes from 1 s on and has a gap of 6 s, another comes during it; both get tokens at 8 s."""
    assert spans(silences(life((0.0, 1.0, 9.0, 6.0), (4.0, 8.0, 9.0, 0.1)), IDLE)) == [(1.0, 8.0)]


def test_an_empty_replica_is_not_silent() -> None:
    assert spans(silences(life((0.0, 0.5, 1.0, 0.1), (20.0, 20.5, 21.0, 0.1)), IDLE)) == []
    assert spans(silences(life((0.0, 0.5, 1.0, 0.1), (20.0, 25.0, 26.0, 0.1)), IDLE)) == [(20.0, 25.0)]


def test_who_decodes_throughout_without_a_gap_shows_that_tokens_came() -> None:
    assert spans(silences(life((0.0, 1.0, 30.0, 0.1), (4.0, 28.0, 30.0, 0.1)), IDLE)) == []


def test_a_long_prompt_in_the_making_is_no_silence() -> None:
    """Its steps fill the 7 s in which nobody else got a token or ended."""
    busy = Running(np.array([3.0, 5.0, 8.0]), np.array([2.0, 2.0, 3.0]))
    assert spans(silences(life((0.0, 1.0, 9.0, 7.0), (1.0, 8.0, 9.0, 0.1)), busy)) == []


def test_seconds_of_silence_within_any_time() -> None:
    found = Silences(np.array([1.0, 10.0]), np.array([3.0, 14.0]))
    start: Floats = np.array([0.0, 2.0, 4.0, 12.0, 0.0])
    end: Floats = np.array([20.0, 11.0, 9.0, 13.0, 0.5])
    assert found.within(start, end).tolist() == [6.0, 2.0, 0.0, 1.0, 0.0]


def served(number: int, after: float, first: float, waited: float = 0.0) -> Record:
    """A request of 10 tokens; `first` s from dispatch to the first of them."""
    row = record(number, after, ttft=waited + first, gap=0.01, num=10, dispatched_at=START + after + waited)
    return replace(row, kv_blocks_reserved=1, prompt_tokens=20)


def stopped_for_six_seconds() -> list[Record]:
    """Four a second; from 60 to 66 s nothing comes out. Four are there and get theirs at the end, the others wait for
    their places in our queue."""
    rows = [served(n + 1, 0.25 * n, 0.05) for n in range(240)]
    rows += [served(300 + n, 60.0 + 0.25 * n, 6.0 - 0.25 * n) for n in range(4)]
    rows += [served(400 + n, 61.0 + 0.25 * n, 0.1, waited=5.2 - 0.2 * n) for n in range(20)]
    return [*rows, *(served(500 + n, 67.0 + 0.25 * n, 0.05) for n in range(120))]


def test_a_stopped_process_is_named_also_where_requests_wait_in_our_queue_for_it() -> None:
    visits = visits_of(stopped_for_six_seconds())
    found = diagnose(visits, {"chat": ENGINE}, "acme")
    assert found.num_bad == 24
    assert found.cause is not None
    assert (found.cause.kind, found.cause.subject) == (CauseKind.STALLED_REPLICA, "http://a")
    parts = time_parts(visits, {"chat": ENGINE})
    inside = np.flatnonzero((visits.dispatched >= START + 60.0) & (visits.dispatched < START + 61.0))
    assert parts.seconds[inside, COLUMN[Part.STALL]] == pytest.approx([6.0, 5.75, 5.5, 5.25], abs=0.2), (
        "all but its own step"
    )
    waits = float(parts.seconds[:, COLUMN[Part.GATEWAY_QUEUE]].sum())
    assert crowding(visits, parts).queue.sum() < 0.3 * waits, "behind whom a silence kept one waits for no tenant"


def windows(starts: int) -> States:
    rows = [
        ReplicaWindow("http://a", START + 10.0 * n, START + 10.0 * (n + 1), 10, 10, 0, running=1.0) for n in range(9)
    ]
    rows[6] = replace(rows[6], num_healthy=4, num_starts=starts)
    return States(rows)


@pytest.mark.parametrize(("starts", "kind"), [(1, CauseKind.COLD_START), (0, CauseKind.REPLICA_LOST)])
def test_who_is_refused_since_no_replica_is_up(starts: int, kind: CauseKind) -> None:
    """The only replica is away for 6 s: what comes then is refused at once and waits nowhere."""
    rows = [served(n + 1, 0.25 * n, 0.05) for n in range(340)]
    for n in range(240, 264):
        end = Outcome.REJECTED, Reason.NO_REPLICA
        refused = record(n + 1, 0.25 * n, ttft=None, lasted=0.0, outcome=end[0], reason=end[1])
        rows[n] = replace(refused, replica="", prompt_tokens=20)
    found = diagnose(visits_of(rows), {"chat": ENGINE}, "acme", states=windows(starts))
    assert found.num_bad == 24
    assert found.cause is not None
    assert (found.cause.kind, found.cause.subject) == (kind, "http://a")
