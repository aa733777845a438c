"""One replica: iteration-level continuous batching as vLLM V1 does it, jumping over runs of decode steps.

`batch.py` says who is in a step, this file how long steps take and what they bring. A step's make-up is fixed when it
starts; whatever arrives waits for its end.

Between an arrival, an end, a cancel and a shortage of blocks a decode batch stays as it is, so its steps last d,
d + g, d + 2g …: any number of them is one formula (`engine/steptime.py`). The rest is stepped. Time inside is counted
from the start of a busy period, so that epoch seconds cost no precision.
"""

from math import inf, sqrt

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.events import ReplicaReport
from plimsoll.sim.batch import Batch
from plimsoll.sim.chunks import quiet_until
from plimsoll.sim.due import Due, step_of
from plimsoll.sim.engine import Counts, Engine, Work
from plimsoll.sim.fitting import check
from plimsoll.sim.job import DECODE, FINISHED, FIRST_TOKEN, OUTGROWN, PREEMPTED, RESUMED, Job, Output
from plimsoll.sim.steplog import StepLog
from plimsoll.slo.measured import Timing, TokenRun


class Replica(Engine):
    """A serving engine with `profile`. Instants are on the caller's clock and never go back.

    Token gaps are noted in `log`: as runs unless a `GapTally` is given, which counts them for all jobs at once.
    """

    def __init__(self, profile: EngineProfile, name: str = "", log: StepLog | None = None) -> None:
        self.profile, self.name = profile, name
        self.batch = Batch(profile)
        self.kv = self.batch.kv
        self._steps = StepTime(profile)
        self._log = StepLog() if log is None else log
        self._jobs: dict[int, Job] = {}
        self._outputs: list[Output] = []
        self._due = Due()
        self._num_joined = 0
        self._busy = False
        self._steady = False  # the next step will be like this one, but for its context
        self._extends = False  # the step that runs now goes on with the run that the log ends with
        self._origin = 0.0  # start of the busy period
        self._start = 0.0  # of the step that runs now, s after the origin
        self._gap = 0.0  # its duration
        self._growth = 0.0  # of each further step of the run
        self._quiet_at = -inf  # a long prompt's chunks bring nothing before that instant, whoever comes
        self._run_end = 0  # number of the last step of the steady run; 0: not known yet

    def submit(self, at: float, job: Job) -> None:
        """Hand a job over. Raises ProfileError where the engine could never hold it. Call `advance(at)` before."""
        check(self.profile, job)
        self._jobs[job.id] = job
        queue = self.batch.queue
        blocked = self._steady and queue.num_waiting > 0 and not queue.by_priority
        queue.push(job)
        if not self._busy:
            self._busy, self._origin = True, at
            self._schedule(0.0)
        elif not blocked:  # behind a head that does not fit either, nothing changes
            self._steady = False

    def cancel(self, job_id: int) -> bool:
        """Drop a job; its blocks are free at once, its place in the step that runs now at that step's end.

        False where it is not here (ended, or never was). Call `advance(at)` before.
        """
        job = self._jobs.pop(job_id, None)
        if job is None:
            return False
        self.batch.drop(job)
        self._steady = False
        self._quiet_at = -inf
        return True

    def next_at(self) -> float:
        """When something will next be told, if nothing is submitted or cancelled before; inf when idle."""
        if not self._busy:
            return inf
        if self._steady:
            return self._ends_at(self._last_of_run() - self.batch.num_steps)
        if self.batch.partial is None:
            return self._origin + (self._start + self._gap)
        if self._quiet_at <= self._origin + self._start:
            due = self._due.next_step()
            self._quiet_at = self._origin + quiet_until(self.batch, self._steps, self._start, self._gap, due)
        return self._quiet_at

    def step_ends_at(self) -> float:
        """When the step that runs now ends; inf when idle."""
        return self._origin + (self._start + self._gap) if self._busy else inf

    def advance(self, until: float) -> list[Output]:
        """End all steps that end by `until`; what they brought, in order."""
        while self._busy and self._origin + (self._start + self._gap) <= until:
            if self._steady:
                self._jump(until)
            else:
                self._end_step()
        outputs = self._outputs
        if outputs:
            self._outputs = []
        return outputs

    def runs(self, job: Job) -> list[TokenRun]:
        """The gaps after the first token of a job so far; once it has FINISHED, ask before the replica moves on."""
        runs = list(job.earlier)
        if job.since and job.output_tokens > job.generated:
            last = self.batch.num_steps if job.state == DECODE else step_of(job, job.output_tokens)
            self._log.runs(job.since, last, runs)
        return runs

    def timing(self, job: Job, tokens: int) -> Timing:
        """What a client saw of a job's output tokens (> 0) so far."""
        if job.timing is not None:
            return job.timing
        running = job.state == DECODE and self.batch.num_steps > job.since
        return self._log.timing(job, tokens, self._origin + self._start if running else job.last_token_at)

    def output_so_far(self, job: Job) -> int:
        """Tokens that a job has produced by the last step that ended."""
        return job.generated + (self.batch.num_steps - job.since if job.state == DECODE else 0)

    def counts(self) -> Counts:
        """What it has done so far."""
        batch = self.batch
        preemptions, beyond = batch.num_preemptions, batch.num_beyond_fit
        return Counts(batch.num_steps, preemptions, batch.prefix_queries, batch.prefix_hits, beyond)

    def report(self, at: float) -> ReplicaReport:
        """What it would say of itself: the state after the last step that ended by `at`. Call `advance(at)` before."""
        batch, caching = self.batch, self.batch.kv.caching
        return ReplicaReport(  # by position: keywords cost time, and all replicas report every second
            self.name, True, at, len(batch.decoding) + len(batch.prefills), batch.queue.num_waiting, batch.kv.usage,
            batch.kv.num_blocks, self.profile.block_size, batch.prefix_queries if caching else None,
            batch.prefix_hits if caching else None, batch.num_preemptions, self.profile.max_context,
        )  # fmt: skip

    def retime(self, steps: StepTime) -> StepTime:
        """See `Engine`. What was foreseen of steps to come is forgotten."""
        before, self._steps = self._steps, steps
        self._steady, self._quiet_at = False, -inf
        return before

    def work(self) -> Work:
        """See `Engine`."""
        return Work(len(self.batch.decoding), self.batch.context, 0, self.batch.num_made)

    # Steps and jumps.

    def _schedule(self, now: float) -> None:
        """Start the step after a boundary at `now`, s after the origin."""
        self._start, self._gap, self._growth = now, 0.0, 0.0
        self._steady, self._extends, self._run_end = False, False, 0
        batch = self.batch
        if not (batch.decoding or batch.partial or batch.queue.num_waiting):
            self._busy = False
            self._log.rest()
            return
        preempted = batch.compose()
        for job in preempted:
            self._note_preemption(job, self._origin + now)
        if not (batch.decoding or batch.prefills):
            raise RuntimeError("a replica with waiting jobs and nobody running admits none of them")
        if self._log.is_long:
            self._log.prune(min([job.since for job in batch.decoding.values()], default=batch.num_steps))
        num_seqs = len(batch.decoding)
        if batch.prefills:
            tokens, work, history = batch.prompt_work()
            self._gap = self._steps.mixed(tokens, len(batch.prefills), num_seqs, batch.context, work, history)
            return
        self._gap = self._steps.decode(num_seqs, batch.context)
        self._growth = self._steps.growth(num_seqs, batch.context)
        self._steady = not preempted  # after a preemption the waiting were not asked

    def _ends_at(self, num: int) -> float:
        """When the `num`-th step from the one that runs now on ends, in a steady run."""
        return self._origin + (self._start + (num * self._gap + self._growth * (num * (num - 1) * 0.5)))

    def _end_step(self) -> None:
        end = self._start + self._gap
        self._note_steps(1)
        self.batch.end_steps(1)
        self._tell_due(self._origin + end)
        for job in self.batch.prefills:
            job.computed += job.chunk
            if job.computed == job.target:
                self._prefilled(job, self._origin + end)
        self._schedule(end)

    def _jump(self, until: float) -> None:
        """End as many steps of a steady run as end by `until`, and start the next one."""
        batch, last = self.batch, self._last_of_run()
        num = self._num_by(until, last - batch.num_steps)
        self._note_steps(num)
        end = self._start + (num * self._gap + self._growth * (num * (num - 1) * 0.5))
        if batch.num_steps + num == last:
            batch.run_on(num - 1)
            batch.end_steps(1)
            self._tell_due(self._origin + end)
            self._schedule(end)
            return
        batch.run_on(num)
        self._start, self._extends = end, True
        self._gap = self._steps.decode(len(batch.decoding), batch.context)

    def _note_steps(self, num: int) -> None:
        first, start_at = self.batch.num_steps + 1, self._origin + self._start
        self._log.add(first, start_at, self._gap, self._growth, num, extends=self._extends)

    def _num_by(self, until: float, most: int) -> int:
        """How many steps of the steady run end by `until`, at least one, at most `most`."""
        if self._ends_at(most) <= until:
            return most
        span, gap, growth = until - self._origin - self._start, self._gap, self._growth
        if growth > 0.0:
            half = gap - growth / 2
            num = int((sqrt(half * half + 2 * growth * max(0.0, span)) - half) / growth)
        else:
            num = int(span / gap)
        num = max(1, min(num, most))
        while num > 1 and self._ends_at(num) > until:
            num -= 1
        while num < most and self._ends_at(num + 1) <= until:
            num += 1
        return num

    def _last_of_run(self) -> int:
        """Number of the step that ends the steady run: a job finishes, blocks run out after it, or steps change."""
        if self._run_end:
            return self._run_end
        batch, finish = self.batch, self._due.next_step()
        if not batch.has_blocks(batch.num_steps + 2, finish - batch.num_steps - 1):
            finish = batch.last_with_blocks()
        self._run_end = min(finish, batch.num_steps + self._steps.steps_alike(len(batch.decoding), batch.context))
        return self._run_end

    # What steps bring.

    def _prefilled(self, job: Job, at: float) -> None:
        """The last chunk of its prompt is computed: a token comes out."""
        if job.output_tokens:
            self._first(job, at)
        if job.generated == job.output_tokens:
            self._finish(job, at)
            return
        self.batch.join(job)
        self._num_joined += 1
        job.order = self._num_joined
        self._due.decodes(job)
        self._log.begin(job)

    def _first(self, job: Job, at: float) -> None:
        job.since = self.batch.num_steps
        job.generated += 1
        if job.generated == 1:
            job.first_token_at = at
            self._outputs.append(Output(FIRST_TOKEN, at, job))
        else:
            self._log.resumed(job, at - job.last_token_at)
            self._outputs.append(Output(RESUMED, at, job))
        job.last_token_at = at
        if job.mark and job.generated > job.mark:
            self._outgrown(job, job.generated, at)

    def _outgrown(self, job: Job, tokens: int, at: float) -> None:
        while tokens > job.mark:
            job.mark *= 2
        self._outputs.append(Output(OUTGROWN, at, job))

    def _tell_due(self, at: float) -> None:
        while (note := self._due.by(self.batch.num_steps)) is not None:
            job = note[2]
            if note[1] % 2 == 0:
                self._outgrown(job, job.mark + 1, at)
                self._due.watch(job)
            else:
                job.last_token_at = at
                self._finish(job, at)

    def _finish(self, job: Job, at: float) -> None:
        self._log.finished(job)
        self.batch.finish(job)
        del self._jobs[job.id]
        self._outputs.append(Output(FINISHED, at, job))

    def _note_preemption(self, job: Job, at: float) -> None:
        if job.since:
            self._log.interrupted(job, self.batch.num_steps)
            job.last_token_at = at  # it ran in the step that has just ended
            job.since = 0
        self._outputs.append(Output(PREEMPTED, at, job))
