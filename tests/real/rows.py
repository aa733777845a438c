"""What a gateway wrote down, to be held against what clients saw."""

import time
from collections.abc import Iterable

from plimsoll.load.result import Result, Seen
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome
from plimsoll.storage import query
from tests.real.parts import Gateway

CROSSING = 0.1  # s that an answer's end and a client's leaving can be under way to each other on a busy machine

MAY_BE = {
    Seen.COMPLETED: {Outcome.COMPLETED},
    Seen.REFUSED: {Outcome.REJECTED, Outcome.SHED, Outcome.EXPIRED, Outcome.FAILED, Outcome.COMPLETED},
    Seen.FAILED: {Outcome.FAILED, Outcome.EVICTED},
    Seen.TIMED_OUT: {Outcome.CANCELLED, Outcome.ABORTED},
    Seen.LEFT: {Outcome.CANCELLED, Outcome.ABORTED},
    Seen.STOPPED: {Outcome.CANCELLED, Outcome.ABORTED},
}
"""How the gateway may call what a client saw. An engine's own 4xx is passed on: refused there, ended here."""


def rows(gateway: Gateway) -> list[Record]:
    """All of the gateway's rows, those of the journal's tail too."""
    return list(query.records(gateway.data))


def row_of(gateway: Gateway, client_request_id: str, within: float = 5.0) -> Record:
    """The one row of that client request id; waits for it, since a client that leaves is noticed a moment later."""
    deadline = time.monotonic() + within
    while True:
        found = [row for row in rows(gateway) if row.client_request_id == client_request_id]
        assert len(found) <= 1, f"{client_request_id} has {len(found)} rows"
        if found:
            return found[0]
        assert time.monotonic() < deadline, f"{client_request_id} has no row after {within} s"
        time.sleep(0.1)


def crossed(result: Result, record: Record) -> bool:
    """Whether the client left while the last bytes of its answer were on their way: both then tell the truth."""
    left = result.outcome in {Seen.LEFT, Seen.TIMED_OUT}
    return left and record.outcome is Outcome.COMPLETED and abs(record.finished_at - result.ended_at) < CROSSING


def disagreements(results: Iterable[Result], records: Iterable[Record]) -> list[str]:
    """Every request of a replay that the gateway's rows tell otherwise, in words; [] where all agree."""
    by_id: dict[str, list[Record]] = {}
    for record in records:
        by_id.setdefault(record.client_request_id, []).append(record)
    told = []
    for result in results:
        mine = by_id.get(result.client_request_id, [])
        if result.outcome is Seen.UNSENT or (result.outcome in MAY_BE and not mine and not result.sent_at):
            continue
        if len(mine) != 1:
            told.append(f"{result.client_request_id} ({result.outcome}): {len(mine)} rows")
            continue
        (record,) = mine
        if record.outcome not in MAY_BE.get(result.outcome, set()) and not crossed(result, record):
            told.append(
                f"{result.client_request_id}: client {result.outcome}, gateway {record.outcome} {record.reason}"
            )
        elif record.tenant != result.tenant:
            told.append(f"{result.client_request_id}: tenant {result.tenant}, gateway {record.tenant}")
        elif result.outcome is Seen.COMPLETED and record.output_tokens != result.output_tokens:
            told.append(f"{result.client_request_id}: {result.output_tokens} tokens, gateway {record.output_tokens}")
    return told
