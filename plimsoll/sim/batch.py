"""Who is in a replica's next step: the scheduler and block accounting of vLLM V1.

Running requests come first, in the order in which they were admitted: one token each, and a further chunk for the one
prompt that may be begun and not whole. Then the waiting ones, as budget, sequences and blocks allow; where a running
request had to be preempted for want of blocks, none is admitted in that step.

Blocks of decoding jobs are counted by residue: a job that holds k tokens before step n needs a new block at every step
where k is a multiple of the block size, so how many are needed in a run of steps is a sum over residues, not over jobs.
"""

from plimsoll.engine.blocks import blocks_for
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import MANY
from plimsoll.sim.holding import Holding
from plimsoll.sim.job import DECODE, ENDED, PREFILL, WAITING, Job


class Batch(Holding):
    """The jobs of one replica, their places and their blocks; knows no time."""

    def __init__(self, profile: EngineProfile) -> None:
        super().__init__(profile)
        self.num_steps = 0  # ended ones
        self.num_made = 0  # tokens decoded
        self.num_beyond_fit = 0  # steps with more tokens or context than the profile was fitted on
        self.context = 0  # KV tokens of the decoding jobs before the step that runs now
        self.decoding: dict[int, Job] = {}  # in the order in which they were admitted
        self.prefills: list[Job] = []  # in the step that runs now
        self.partial: Job | None = None  # a prompt begun and not computed whole: always the last one admitted
        self._fitted_tokens = profile.fitted_max_tokens or MANY
        self._fitted_context = profile.fitted_max_context or MANY
        self._beyond_tokens = False
        self._residues = [0] * profile.block_size  # decoding jobs that need a block at steps ≡ index
        self._unserved: set[int] = set()  # jobs that have no block yet for the step to come

    # The step to come.

    def compose(self) -> list[Job]:
        """Choose who is in the next step and take their blocks; who had to be preempted for it."""
        self.prefills = []
        preempted = self._keep_running()
        if not preempted or not (self.decoding or self.prefills):
            self._admit()
        return preempted

    def _keep_running(self) -> list[Job]:
        preempted: list[Job] = []
        needed = self.needed_at(self.num_steps + 1)
        if needed <= self.kv.num_free:
            self.kv.allocate(needed)
        else:
            self._squeeze(preempted)
        job = self.partial
        if job is not None:
            self._continue_prompt(job, preempted)
        return preempted

    def _squeeze(self, preempted: list[Job]) -> None:
        """There are fewer blocks than the decoding jobs need: serve them in order, preempting from the end."""
        residue = (self.num_steps + 1) % self._block
        needy = [job for job in self.decoding.values() if self._residue(job) == residue]
        self._unserved = {job.id for job in needy}
        for job in needy:
            if job.state == DECODE and self._make_room(1, job, preempted):
                self.kv.allocate(1)
                self._unserved.remove(job.id)
        self._unserved = set()

    def _continue_prompt(self, job: Job, preempted: list[Job]) -> None:
        chunk = min(job.target - job.computed, self.max_batched_tokens - len(self.decoding))
        needed = blocks_for(job.computed + chunk, self._block) - blocks_for(job.computed, self._block)
        if self._make_room(needed, job, preempted):
            self.kv.allocate(needed)
            job.chunk = chunk
            self._take_chunk(job)

    def _make_room(self, needed: int, job: Job, preempted: list[Job]) -> bool:
        """Preempt until `needed` blocks are free; False where `job` itself had to go."""
        while self.kv.num_free < needed:
            victim = self._victim()
            self._preempt(victim)
            preempted.append(victim)
            if victim is job:
                return False
        return True

    def _victim(self) -> Job:
        last = self.partial if self.partial is not None else next(reversed(self.decoding.values()))
        return self._victim_among(last, self.decoding.values())

    def _preempt(self, job: Job) -> None:
        if job.state == DECODE:
            computed = self.computed(job)
            held = computed if job.id in self._unserved else computed + 1
            self.leave(job)
            job.generated += self.num_steps - job.since
        else:
            computed = held = job.computed
            self.partial = None
        self._give_up(job, computed, blocks_for(held, self._block))

    # The waiting.

    def _admit(self) -> None:
        budget = self.max_batched_tokens - len(self.decoding)
        for job in self.prefills:
            budget -= job.chunk
        while budget > 0 and self.queue.num_waiting and len(self.decoding) + len(self.prefills) < self._max_seqs:
            job = self.queue.head()
            if not self._begin(job, budget):
                return
            self._take_chunk(job)
            self.queue.pop()
            budget -= job.chunk

    def _take_chunk(self, job: Job) -> None:
        self.prefills.append(job)
        self.partial = job if job.computed + job.chunk < job.target else None
        self._publish(job, min(job.prompt_tokens, job.computed + job.chunk))

    def prompt_work(self) -> tuple[int, float, float]:
        """Of the prompts in the step that runs now: tokens, PW and KP (`engine/steptime.py`)."""
        tokens, work, history = 0, 0.0, 0
        for job in self.prefills:
            tokens += job.chunk
            work += job.chunk * (job.computed + job.chunk / 2)
            history += job.chunk * job.computed
        self._beyond_tokens = tokens + len(self.decoding) > self._fitted_tokens
        return tokens, work, history / tokens

    # Coming and going.

    def join(self, job: Job) -> None:
        """Its prompt is computed and its token out: it decodes from the next step on."""
        job.state = DECODE
        self.decoding[job.id] = job
        self._residues[self._residue(job)] += 1
        self.context += job.target

    def leave(self, job: Job) -> None:
        """Take a job out of the decoding ones; its blocks are not touched."""
        del self.decoding[job.id]
        self._residues[self._residue(job)] -= 1
        self.context -= self.computed(job)

    def finish(self, job: Job) -> None:
        """Its last token came with the step that has just ended: give its blocks back."""
        if job.state == DECODE:
            computed = self.computed(job)
            self._publish(job, computed)
            self.leave(job)
        else:
            computed = job.computed
        self.kv.free(job.extents, job.num_hashes, blocks_for(computed, self._block) - job.shared)
        job.state = ENDED

    def drop(self, job: Job) -> None:
        """Cancel a job while a step runs: its blocks are free at once."""
        if job.state == WAITING:
            self.queue.remove(job)
            self.kv.forget(job.id)
        elif job.state == PREFILL:
            self.kv.free(job.extents, job.num_hashes, blocks_for(job.computed + job.chunk, self._block) - job.shared)
            self.prefills = [other for other in self.prefills if other is not job]
            if self.partial is job:
                self.partial = None
        else:
            held = self.computed(job) + 1
            self.leave(job)
            self.kv.free(job.extents, job.num_hashes, blocks_for(held, self._block) - job.shared)
        job.state = ENDED

    def computed(self, job: Job) -> int:
        """KV tokens of a decoding job before the step that runs now."""
        return job.target + self.num_steps - job.since

    # Runs of decode steps.

    def run_on(self, num: int) -> None:
        """`num` steps end and as many begin, nobody coming or going, and blocks being enough."""
        self.kv.allocate(self.blocks_needed(self.num_steps + 2, num))
        self.end_steps(num)

    def end_steps(self, num: int) -> None:
        """`num` steps have ended."""
        self.num_steps += num
        num_seqs = len(self.decoding)
        self.context += num_seqs * num
        self.num_made += num_seqs * num
        if self._beyond_tokens or self.context > self._fitted_context or num_seqs > self._fitted_tokens:
            self._count_beyond(num)

    def _count_beyond(self, num: int) -> None:
        """How many of the `num` steps that have just ended lie outside the range of the fit."""
        if self._beyond_tokens:  # a step with prompts, so the only one
            self._beyond_tokens = False
            self.num_beyond_fit += 1
            return
        num_seqs = len(self.decoding)
        if num_seqs > self._fitted_tokens:
            self.num_beyond_fit += num
            return
        over = self.context - num_seqs - self._fitted_context  # of the last of them
        if over > 0:
            self.num_beyond_fit += min(num, (over - 1) // num_seqs + 1)

    def has_blocks(self, first: int, num: int) -> bool:
        """Whether there are blocks enough for the starts of steps `first` to `first + num - 1`."""
        most = (num // self._block + 1) * len(self.decoding)  # a bound that is nearly always enough
        return most <= self.kv.num_free or self.blocks_needed(first, num) <= self.kv.num_free

    def blocks_needed(self, first: int, num: int) -> int:
        """Blocks that the decoding jobs need at the starts of steps `first` to `first + num - 1`."""
        needed = num // self._block * len(self.decoding)
        for number in range(first, first + num % self._block):
            needed += self._residues[number % self._block]
        return needed

    def needed_at(self, number: int) -> int:
        """Blocks that the decoding jobs need at the start of that step."""
        return self._residues[number % self._block]

    def last_with_blocks(self) -> int:
        """Number of the last step for which all decoding jobs find blocks; at least the step that runs now."""
        left = self.kv.num_free % len(self.decoding)
        number = self.num_steps + 2 + self.kv.num_free // len(self.decoding) * self._block
        while self._residues[number % self._block] <= left:
            left -= self._residues[number % self._block]
            number += 1
        return number - 1

    def _residue(self, job: Job) -> int:
        return (job.since + 1 - job.target) % self._block
