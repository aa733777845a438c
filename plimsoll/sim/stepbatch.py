"""Who is in a replica's next step, counted one by one: `batch.py` for engines whose steps cannot be jumped.

Two things come on top. A decoding request takes room for its guesses as well. And in rounds, after a look at the
waiting that led to a step of decoding alone, the next steps look no more.
"""

from plimsoll.engine.blocks import blocks_for
from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.holding import Holding
from plimsoll.sim.job import DECODE, ENDED, PREFILL, WAITING, Job
from plimsoll.sim.speculation import Drafting


class StepBatch(Holding):
    """The jobs of one replica, their places and their blocks; knows no time."""

    def __init__(self, profile: EngineProfile) -> None:
        super().__init__(profile)
        self.drafting = Drafting(profile.speculation) if profile.speculation else None
        self.running: dict[int, Job] = {}  # in the order in which they were admitted
        self.members: list[Job] = []  # of these, in the step that runs now
        self.looked = False  # whether that step looked at the waiting
        self.arrived = False  # since the last look
        self._unlooked = 0  # steps to come that will not look
        self._rounds = profile.rounds

    @property
    def load(self) -> int:
        """What vLLM weighs ranks by."""
        return 4 * self.queue.num_waiting + len(self.running)

    def compose(self) -> list[Job]:
        """Choose who is in the next step and take their blocks; who had to be preempted for it."""
        self.members = []
        preempted = self._keep_running()
        self.looked = False
        if not preempted or not self.members:
            self.looked = self._look()
        return preempted

    def drop(self, job: Job) -> None:
        """Cancel a job while a step runs: its blocks are free at once."""
        if job.state == WAITING:
            self.queue.remove(job)
            self.kv.forget(job.id)
        else:
            self.leave(job)
            self.kv.free(job.extents, job.num_hashes, job.held - job.shared)
        job.state = ENDED

    def finish(self, job: Job) -> None:
        """Its last token came with the step that has just ended: give its blocks back."""
        self._publish(job, job.computed)
        del self.running[job.id]
        self.kv.free(job.extents, job.num_hashes, job.held - job.shared)
        job.state = ENDED

    def _keep_running(self) -> list[Job]:
        """Tokens and blocks for those that run, in order; who had to go for want of blocks."""
        preempted: list[Job] = []
        num_decoding = sum(job.state == DECODE for job in self.running.values())
        for job in list(self.running.values()):
            if job.state not in {DECODE, PREFILL}:
                continue
            if job.state == DECODE:
                left = job.output_tokens - job.generated
                job.guesses = self.drafting.guesses(num_decoding, left) if self.drafting and job.drafts else 0
                job.chunk = 1 + job.guesses
            else:
                job.chunk = min(job.target - job.computed, self._budget())
            needed = max(0, blocks_for(job.computed + job.chunk, self._block) - job.held)
            while self.kv.num_free < needed and job.state != WAITING:
                victim = self._victim_among(next(reversed(self.running.values())), self.running.values())
                self.leave(victim)
                self._give_up(victim, victim.computed, victim.held)
                preempted.append(victim)
            if job.state != WAITING:
                self.kv.allocate(needed)
                job.held += needed
                self._join(job)
        return preempted

    def _budget(self) -> int:
        return self.max_batched_tokens - sum(job.chunk for job in self.members)

    def _join(self, job: Job) -> None:
        """A job is in the step to come, and has its blocks."""
        self.members.append(job)
        if job.state == PREFILL:
            self._publish(job, min(job.prompt_tokens, job.computed + job.chunk))

    def leave(self, job: Job) -> None:
        """Take a job out of the running ones and of the step that runs now; its blocks are not touched."""
        del self.running[job.id]
        self.members = [other for other in self.members if other is not job]

    def _look(self) -> bool:
        """Admit waiting jobs, where this step looks at them; whether it does."""
        rounds = self._rounds
        if rounds is not None and self._unlooked > 0 and self.members and not (rounds.early_cut and self.arrived):
            self._unlooked -= 1
            return False
        self.arrived = False
        budget = self._budget()
        while budget > 0 and self.queue.num_waiting and len(self.running) < self._max_seqs:
            job = self.queue.head()
            if not self._begin(job, budget):
                break
            job.guesses, job.held = 0, blocks_for(job.computed + job.chunk, self._block)
            self.running[job.id] = job
            self._join(job)
            self.queue.pop()
            budget -= job.chunk
        decoding_alone = all(job.state == DECODE for job in self.members)
        self._unlooked = rounds.steps - 1 if rounds is not None and decoding_alone else 0
        return True
