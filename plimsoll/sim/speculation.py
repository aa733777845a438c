"""Guesses of a draft model: how many a step makes for a request, and how many of them are kept."""

from plimsoll.engine.blocks import chain
from plimsoll.engine.features import Speculation
from plimsoll.sim.job import Job

_UNIT = 2.0**-64


class Drafting:
    """The guesses of one replica. A draw depends on the job's dice and how often it has drawn, on nothing else."""

    def __init__(self, spec: Speculation) -> None:
        self._most = spec.draft_tokens
        self._off_above = spec.off_above
        self._acceptance = {name: list(chances) for name, chances in spec.acceptance.items()}
        self._default = self._acceptance["default"]
        self.num_guessed = 0
        self.num_kept = 0
        self._time = spec.draft_time
        self._time_per_sequence = spec.draft_time_per_sequence

    def guesses(self, num_seqs: int, left: int) -> int:
        """How many a step of `num_seqs` sequences makes for one that has `left` tokens to come."""
        return 0 if num_seqs > self._off_above else max(0, min(self._most, left - 1))

    def kept(self, job: Job) -> int:
        """Of the guesses of the step that has just ended, how many were right up to the first wrong one."""
        draw = chain(chain(job.dice, job.id), job.num_verified) * _UNIT
        job.num_verified += 1
        chances = self._acceptance.get(job.tenant, self._default)
        kept = 0
        while kept < job.guesses and draw < chances[kept]:
            kept += 1
        self.num_guessed += job.guesses
        self.num_kept += kept
        job.num_guessed += job.guesses
        job.num_kept += kept
        return kept

    def time(self, longest: int, total: int) -> float:
        """Seconds to guess: one pass of the draft a position, and a share for each guess."""
        return longest * self._time + total * self._time_per_sequence
