"""What the jobs of one replica hold, and how they come to it and lose it: the same whether steps are jumped or not."""

from collections.abc import Iterable

from plimsoll.engine.blocks import blocks_for
from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.enginequeue import EngineQueue
from plimsoll.sim.job import PREFILL, WAITING, Job
from plimsoll.sim.kvcache import KvCache, reach


class Holding:
    """The queue and the blocks of one replica; `batch.py` and `stepbatch.py` say who is in a step."""

    def __init__(self, profile: EngineProfile) -> None:
        self.num_preemptions = 0
        self.prefix_queries = 0  # prompt tokens looked up
        self.prefix_hits = 0  # of these, found
        self.kv = KvCache(profile.num_blocks, profile.prefix_caching)
        self.queue = EngineQueue(profile.priority_scheduling)
        self.block_size = self._block = profile.block_size
        self.max_batched_tokens = profile.max_batched_tokens
        self._max_seqs = profile.max_num_seqs
        self._reserve_prompt = profile.reserve_prompt

    def _victim_among(self, last: Job, running: Iterable[Job]) -> Job:
        """Who is preempted first: `last`, the one admitted last; by priority, the last of the least urgent."""
        if self.queue.by_priority:
            for job in running:
                if (job.priority, job.place) > (last.priority, last.place):
                    last = job
        return last

    def _give_up(self, job: Job, computed: int, held: int) -> None:
        """Preempt a job of `held` blocks, with KV of `computed` tokens in them, that is in no step any more.

        It will compute its prompt and what it has produced anew, less what is still cached.
        """
        own = computed // self._block - job.shared
        self.kv.free([], 0, held - job.shared - own)
        self.kv.leave(job.id, own)
        self.kv.free(job.extents, job.num_hashes, 0)
        job.kept = job.num_hashes
        job.extents, job.num_hashes, job.shared, job.computed, job.held, job.loaded = [], 0, 0, 0, 0, 0
        job.target = job.prompt_tokens + job.generated
        job.state = WAITING
        job.num_preemptions += 1
        self.num_preemptions += 1
        self.queue.push_front(job)

    def _begin(self, job: Job, budget: int) -> bool:
        """Look its prompt up in the prefix cache and take blocks for its first chunk; False where they do not fit."""
        block, kv = self._block, self.kv
        found = kv.match(job.hashes, (job.target - 1) // job.hash_tokens) if kv.caching else []
        own = kv.left_behind(job.id) if reach(found) == job.kept else 0
        hits, unused = own, own
        for extent in found:
            whole = (extent.end - extent.start) * extent.unit
            hits += whole
            unused += whole if extent.refs == 0 else 0
        done = hits * block
        if job.loaded_from <= done < job.loaded:
            done = job.loaded
        chunk = min(budget, job.target - done)
        end = done + chunk
        if blocks_for(job.target if self._reserve_prompt else end, block) - hits + unused > kv.num_free:
            return False
        kv.take(found)
        if own:
            kv.take_own(job.id)
        else:
            kv.forget(job.id)
        kv.allocate(blocks_for(end, block) - hits)
        self._note_hits(job, done)
        job.extents, job.num_hashes, job.shared, job.computed = found, reach(found), hits - own, done
        job.state, job.chunk = PREFILL, chunk
        return True

    def _note_hits(self, job: Job, tokens: int) -> None:
        if self.kv.caching and job.num_preemptions == 0:
            job.cached_tokens = tokens
            self.prefix_queries += job.target
            self.prefix_hits += tokens

    def _publish(self, job: Job, tokens: int) -> None:
        """Let others hit the first `tokens` tokens of a job, as far as whole hashes reach."""
        if not self.kv.caching:
            return
        keys, start = _keys_of(job), job.num_hashes
        stop = min(tokens // job.hash_tokens, len(keys))
        if start < stop:
            unit = job.hash_tokens // self._block
            self.kv.publish(keys, start, stop, unit, job.extents)
            job.shared += (stop - start) * unit
            job.num_hashes = stop


def _keys_of(job: Job) -> tuple[object, ...]:
    """Its hashes as they are kept: objects."""
    return job.hashes
