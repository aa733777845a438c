"""A request as a turn of its session's run."""

from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import REASONS, Blame, Outcome
from plimsoll.slo.runs import Turn


def turn_of(record: Record) -> Turn:
    """What a run needs of it."""
    blame = None if record.outcome is Outcome.COMPLETED else REASONS[record.reason].blame
    return Turn(
        record.request_id,
        record.session,
        record.arrived_at,
        record.finished_at,
        record.upstream_time,
        record.cause,
        record.client_stall,
        lost=blame is Blame.OURS,
        spoilt=blame is not None and blame is not Blame.OURS,
        judged=any(verdict.num_good or verdict.num_bad for verdict in record.verdicts),
        kept=not any(verdict.num_bad for verdict in record.verdicts),
    )
