"""One replica that does every step by itself: where what a step brings depends on its own state, nothing can be jumped.

`stepbatch.py` says who is in a step. With speculative decoding a step brings a request one token and the guesses that
were right, all at the step's end. Data-parallel ranks, which share experts, begin and end each step together: a request
goes to the rank with the least 4 · waiting + running, as in vLLM 0.19, and whoever has less to do waits for the others.
"""

from math import inf

from msgspec.structs import replace

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import MANY, StepTime
from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.enginestate import EngineState
from plimsoll.sim.engine import Counts, Engine, Work
from plimsoll.sim.fitting import check
from plimsoll.sim.job import (
    DECODE,
    FINISHED,
    FIRST_TOKEN,
    OUTGROWN,
    PREEMPTED,
    PREFILL,
    RESUMED,
    Job,
    Output,
)
from plimsoll.sim.kvcache import reach
from plimsoll.sim.stepbatch import StepBatch
from plimsoll.slo.measured import Timing, TokenRun
from plimsoll.slo.timing import TokenClock


class SteppingReplica(Engine):
    """The same engine as `Replica`, slower, for profiles with `speculation`, `rounds` or `data_parallel`."""

    def __init__(self, profile: EngineProfile, name: str = "", thresholds: list[float] | None = None) -> None:
        self.profile = profile
        self.name = name
        self._num_steps = 0
        self._num_beyond_fit = 0
        self._num_made = 0  # output tokens
        self._fitted_tokens = profile.fitted_max_tokens or MANY
        self._fitted_context = profile.fitted_max_context or MANY
        self._thresholds = thresholds or []
        num_ranks = profile.data_parallel.ranks if profile.data_parallel else 1
        self.ranks = [StepBatch(profile) for _ in range(num_ranks)]
        self._steps = StepTime(profile)
        self._rounds = profile.rounds
        self._jobs: dict[int, Job] = {}
        self._outputs: list[Output] = []
        self._busy = False
        self._beyond = False  # whether the step that runs now lies outside the range of the fit
        self._origin = 0.0
        self._start = 0.0
        self._gap = 0.0

    def submit(self, at: float, job: Job) -> None:
        """Hand a job over. Raises ProfileError where the engine could never hold it. Call `advance(at)` before."""
        check(self.profile, job)
        self._jobs[job.id] = job
        job.rank = min(range(len(self.ranks)), key=lambda number: (self.ranks[number].load, number))
        self.ranks[job.rank].queue.push(job)
        self.ranks[job.rank].arrived = True
        if not self._busy:
            self._busy, self._origin = True, at
            self._schedule(0.0)

    def cancel(self, job_id: int) -> bool:
        """Drop a job; its blocks are free at once, its place in the step that runs now at that step's end."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return False
        self.ranks[job.rank].drop(job)
        return True

    def next_at(self) -> float:
        """When a step ends next; inf when idle."""
        return self._origin + (self._start + self._gap) if self._busy else inf

    def step_ends_at(self) -> float:
        """The same."""
        return self.next_at()

    def advance(self, until: float) -> list[Output]:
        """End all steps that end by `until`; what they brought, in order."""
        while self._busy and self.next_at() <= until:
            self._end_step()
        outputs, self._outputs = self._outputs, []
        return outputs

    def runs(self, job: Job) -> list[TokenRun]:
        """The gaps after the first token of a job so far; tokens of one step are 0 apart."""
        return list(job.earlier)

    def timing(self, job: Job, tokens: int) -> Timing:
        """What a client saw of a job's output tokens (> 0) so far."""
        clock = TokenClock(tuple([self._thresholds[index] for index in job.thresholds]))
        clock.tokens(job.first_token_at, 1)
        for run in job.earlier:
            clock.tokens(run.start_at + run.first_gap, run.num)
        return clock.finish(tokens)

    def output_so_far(self, job: Job) -> int:
        """Tokens that a job has produced by the last step that ended."""
        return job.generated

    def counts(self) -> Counts:
        """What it has done so far."""
        ranks = self.ranks
        return Counts(
            self._num_steps,
            sum([batch.num_preemptions for batch in ranks]),
            sum([batch.prefix_queries for batch in ranks]),
            sum([batch.prefix_hits for batch in ranks]),
            self._num_beyond_fit,
        )

    def resident(self, job: Job) -> int:
        """How many of a job's prefix hashes would be found in HBM now, by the rank that has the most."""
        whole = (job.prompt_tokens - 1) // job.hash_tokens
        return max([reach(batch.kv.match(job.hashes, whole)) for batch in self.ranks])

    def report(self, at: float) -> ReplicaReport:
        """What it would say of itself: the state after the last step that ended by `at`. Call `advance(at)` before."""
        counts, caching = self.counts(), self.profile.prefix_caching
        return ReplicaReport(
            replica=self.name,
            healthy=True,
            reported_at=at,
            running=sum([len(batch.running) for batch in self.ranks]),
            waiting=sum([batch.queue.num_waiting for batch in self.ranks]),
            kv_usage=sum([batch.kv.usage for batch in self.ranks]) / len(self.ranks),
            kv_blocks=sum([batch.kv.num_blocks for batch in self.ranks]),
            block_size=self.profile.block_size,
            prefix_queries=counts.prefix_queries if caching else None,
            prefix_hits=counts.prefix_hits if caching else None,
            preemptions=counts.num_preemptions,
            max_context=self.profile.max_context,
        )

    def work(self) -> Work:
        """See `Engine`; of all ranks together."""
        decoding = [job for batch in self.ranks for job in batch.members if job.state == DECODE]
        context, guesses = sum([job.computed for job in decoding]), sum([job.guesses for job in decoding])
        return Work(len(decoding), context, guesses, self._num_made)

    def state(self) -> EngineState:
        """What it would tell beyond its load: with its draft tokens."""
        told = super().state()
        if self.profile.speculation is None:
            return told
        draftings = [batch.drafting for batch in self.ranks if batch.drafting is not None]
        guessed, kept = sum([each.num_guessed for each in draftings]), sum([each.num_kept for each in draftings])
        return replace(told, draft_tokens=guessed, accepted_tokens=kept)

    # Steps.

    def _schedule(self, now: float) -> None:
        """Start the step after a boundary at `now`, s after the origin."""
        self._start, self._gap, self._busy, self._beyond = now, 0.0, False, False
        for batch in self.ranks:
            if not (batch.running or batch.queue.num_waiting):
                batch.members = []
                continue
            self._busy = True
            for job in batch.compose():
                self._outputs.append(Output(PREEMPTED, self._origin + now, job))
            if not batch.members:
                raise RuntimeError("a replica with waiting jobs and nobody running admits none of them")
            self._gap = max(self._gap, self._duration(batch))

    def _duration(self, batch: StepBatch) -> float:
        tokens, work, history, num_prefills = 0, 0.0, 0, 0
        num_seqs, context, guesses, longest = 0, 0, 0, 0
        for job in batch.members:
            if job.state == DECODE:
                num_seqs += 1
                context += job.computed
                guesses += job.guesses
                longest = max(longest, job.guesses)
            else:
                num_prefills += 1
                tokens += job.chunk
                work += job.chunk * (job.computed + job.chunk / 2)
                history += job.chunk * job.computed
        if context > self._fitted_context or tokens + num_seqs + guesses > self._fitted_tokens:
            self._beyond = True
        extra = batch.drafting.time(longest, guesses) if batch.drafting is not None and guesses else 0.0
        if batch.looked and self._rounds is not None:
            extra += self._rounds.schedule_time
        if num_prefills == 0:
            return extra + self._steps.decode(num_seqs, context, guesses)
        step = self._steps.mixed(tokens, num_prefills, num_seqs, context, work, history / tokens, guesses)
        return extra + step

    def _end_step(self) -> None:
        now = self._start + self._gap
        self._num_steps += 1
        self._num_beyond_fit += self._beyond
        for batch in self.ranks:
            for job in batch.members:
                if job.state == DECODE:
                    self._decoded(job, self._origin + now)
                elif job.state == PREFILL:
                    job.computed += job.chunk
                    if job.computed == job.target:
                        self._prefilled(job, self._origin + now)
        self._schedule(now)

    def _decoded(self, job: Job, at: float) -> None:
        drafting = self.ranks[job.rank].drafting
        kept = drafting.kept(job) if drafting is not None and job.guesses else 0
        job.computed += 1 + kept
        job.earlier.append(TokenRun(job.last_token_at, at - job.last_token_at, 0.0, 1))
        if kept:
            job.earlier.append(TokenRun(at, 0.0, 0.0, kept))
        self._produced(job, 1 + kept, at)

    def _prefilled(self, job: Job, at: float) -> None:
        """The last chunk of its prompt is computed: a token comes out."""
        job.state = DECODE
        if job.output_tokens == 0:
            self._finish(job, at)
        elif job.generated == 0:
            job.first_token_at = at
            self._outputs.append(Output(FIRST_TOKEN, at, job))
            self._produced(job, 1, at)
        else:
            job.earlier.append(TokenRun(job.last_token_at, at - job.last_token_at, 0.0, 1))
            self._outputs.append(Output(RESUMED, at, job))
            self._produced(job, 1, at)

    def _produced(self, job: Job, num: int, at: float) -> None:
        job.generated += num
        self._num_made += num
        job.last_token_at = at
        if job.generated == job.output_tokens:
            self._finish(job, at)
            return
        if job.mark and job.generated > job.mark:
            while job.generated > job.mark:
                job.mark *= 2
            self._outputs.append(Output(OUTGROWN, at, job))

    def _finish(self, job: Job, at: float) -> None:
        self.ranks[job.rank].finish(job)
        del self._jobs[job.id]
        self._outputs.append(Output(FINISHED, at, job))
