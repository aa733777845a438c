"""What decoding jobs have coming: the step with which each passes its mark, and the one with which it finishes."""

from typing import Final

from plimsoll.sim import bound
from plimsoll.sim.job import DECODE, Job

NEVER: Final = 1 << 60  # a step that does not come


class Due:
    """Notes are (step, order, job), order being even where the job passes its mark, odd where it finishes."""

    def __init__(self) -> None:
        self._notes: list[tuple[int, int, Job]] = []

    def decodes(self, job: Job) -> None:
        """A job decodes from the next step on."""
        bound.PUSH(self._notes, (step_of(job, job.output_tokens), 2 * job.order + 1, job))
        self.watch(job)

    def watch(self, job: Job) -> None:
        """Tell when it passes its mark, where it will."""
        if 0 < job.mark < job.output_tokens:
            bound.PUSH(self._notes, (step_of(job, job.mark + 1), 2 * job.order, job))

    def next_step(self) -> int:
        """Number of the first step with which something is due; NEVER where nothing is."""
        notes = self._notes
        while notes and not _still_holds(notes[0]):
            bound.POP(notes)
        return notes[0][0] if notes else NEVER

    def by(self, number: int) -> tuple[int, int, Job] | None:
        """Take out what is due first, by that step; None: nothing more."""
        notes = self._notes
        while notes and notes[0][0] <= number:
            note: tuple[int, int, Job] = bound.POP(notes)
            if _still_holds(note):
                return note
        return None


def step_of(job: Job, tokens: int) -> int:
    """Number of the step with which a decoding job has `tokens` tokens of output."""
    return job.since + tokens - job.generated


def _still_holds(note: tuple[int, int, Job]) -> bool:
    """A job that was preempted since has later notes."""
    step, order, job = note
    if job.state != DECODE or order // 2 != job.order:
        return False
    return order % 2 == 1 or step == step_of(job, job.mark + 1)
