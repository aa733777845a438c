"""Who is in a replica's next step, counted one by one: `batch.py` for engines whose steps cannot be jumped.

Two things come on top. A decoding request takes room for its guesses as well. And in rounds, after a look at the
waiting that led to a step of decoding alone, the next steps look no more.
"""

from plimsoll.engine.blocks import blocks_for
from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.enginequeue import EngineQueue
from plimsoll.sim.job import DECODE, ENDED, PREFILL, WAITING, Job
from plimsoll.sim.kvcache import KvCache
from plimsoll.sim.speculation import Drafting


class StepBatch:
    """The jobs of one replica, their places and their blocks; knows no time."""

    def __init__(self, profile: EngineProfile) -> None:
        self.num_preemptions = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.kv = KvCache(profile.num_blocks, profile.prefix_caching)
        self.queue = EngineQueue(profile.priority_scheduling)
        self.drafting = Drafting(profile.speculation) if profile.speculation else None
        self.running: dict[int, Job] = {}  # in the order in which they were admitted
        self.members: list[Job] = []  # of these, in the step that runs now
        self.looked = False  # whether that step looked at the waiting
        self.arrived = False  # since the last look
        self._unlooked = 0  # steps to come that will not look
        self._rounds = profile.rounds
        self._block = profile.block_size
        self._budget_of_step = profile.max_batched_tokens
        self._max_seqs = profile.max_num_seqs
        self._reserve_prompt = profile.reserve_prompt

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
            self.kv.free(job.extents, job.held - job.shared)
        job.state = ENDED

    def finish(self, job: Job) -> None:
        """Its last token came with the step that has just ended: give its blocks back."""
        self._publish(job, job.computed)
        del self.running[job.id]
        self.kv.free(job.extents, job.held - job.shared)
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
                job.guesses = self.drafting.guesses(num_decoding, left) if self.drafting else 0
                job.chunk = 1 + job.guesses
            else:
                job.chunk = min(job.target - job.computed, self._budget())
            needed = blocks_for(job.computed + job.chunk, self._block) - job.held
            while self.kv.num_free < needed and job.state != WAITING:
                victim = self._victim()
                self._preempt(victim)
                preempted.append(victim)
            if job.state != WAITING:
                self._grow(job)
        return preempted

    def _budget(self) -> int:
        return self._budget_of_step - sum(job.chunk for job in self.members)

    def _grow(self, job: Job) -> None:
        """Blocks for what a job computes in the step to come."""
        needed = max(0, blocks_for(job.computed + job.chunk, self._block) - job.held)
        self.kv.allocate(needed)
        job.held += needed
        self.members.append(job)
        if job.state == PREFILL:
            self._publish(job, min(job.prompt_tokens, job.computed + job.chunk))

    def _victim(self) -> Job:
        last = next(reversed(self.running.values()))
        if self.queue.by_priority:
            for job in self.running.values():
                if (job.priority, job.place) > (last.priority, last.place):
                    last = job
        return last

    def _preempt(self, job: Job) -> None:
        """Take a job's blocks; it will compute its prompt and what it has produced anew, less what is still cached."""
        self.leave(job)
        own = job.computed // self._block - job.shared
        self.kv.free([], job.held - job.shared - own)
        self.kv.leave(job.id, own)
        self.kv.free(job.extents, 0)
        job.kept = len(job.extents)
        job.extents, job.shared, job.computed, job.held, job.loaded = [], 0, 0, 0, 0
        job.target = job.prompt_tokens + job.generated
        job.state = WAITING
        job.num_preemptions += 1
        self.num_preemptions += 1
        self.queue.push_front(job)

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
            self.queue.pop()
            budget -= job.chunk
        decoding_alone = all(job.state == DECODE for job in self.members)
        self._unlooked = rounds.steps - 1 if rounds is not None and decoding_alone else 0
        return True

    def _begin(self, job: Job, budget: int) -> bool:
        """Look its prompt up in the prefix cache and take blocks for its first chunk; False where they do not fit."""
        block, kv = self._block, self.kv
        found = kv.match(job.hashes, (job.target - 1) // job.hash_tokens) if kv.caching else []
        own = kv.left_behind(job.id) if len(found) == job.kept else 0
        hits = own + sum(extent.num_blocks for extent in found)
        unused = own + sum(extent.num_blocks for extent in found if extent.refs == 0)
        done = hits * block
        if job.loaded_from <= done < job.loaded:
            done = job.loaded
        chunk = min(budget, job.target - done)
        reach = job.target if self._reserve_prompt else done + chunk
        if blocks_for(reach, block) - hits + unused > kv.num_free:
            return False
        kv.take(found)
        if own:
            kv.take_own(job.id)
        else:
            kv.forget(job.id)
        if kv.caching and job.num_preemptions == 0:
            job.cached_tokens = done
            self.prefix_queries += job.target
            self.prefix_hits += done
        job.extents, job.shared, job.computed, job.held = found, hits - own, done, hits
        job.state, job.chunk, job.guesses = PREFILL, chunk, 0
        self.running[job.id] = job
        self._grow(job)
        return True

    def _publish(self, job: Job, tokens: int) -> None:
        """Let others hit the first `tokens` tokens of a job, as far as whole hashes reach."""
        if not self.kv.caching:
            return
        num_blocks = job.hash_tokens // self._block
        for index in range(len(job.extents), min(tokens // job.hash_tokens, len(job.hashes))):
            job.extents.append(self.kv.publish(job.hashes[index], num_blocks))
            job.shared += num_blocks
