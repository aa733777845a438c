"""The engine model on the wall clock: jobs in, one call a token out, at the instants the model says."""

from asyncio import AbstractEventLoop, TimerHandle
from typing import Protocol

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.events import ReplicaReport
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, Job


class Sink(Protocol):
    """Where the tokens of one job go."""

    def token(self) -> None:
        """One token came out."""

    def finished(self, job: Job) -> None:
        """The last token has come out, or the prompt is computed where no tokens were wanted."""


class Stream:
    """A job's tokens on their way to its sink."""

    def __init__(self, job: Job, sink: Sink) -> None:
        self.job = job
        self.sink = sink
        self._told = 0

    def tell(self, tokens: int) -> None:
        """It has produced so many by now."""
        while self._told < tokens:
            self._told += 1
            self.sink.token()


class EmulatedEngine:
    """One replica of `profile` whose clock runs `speed` times as fast as the loop's."""

    def __init__(self, profile: EngineProfile, loop: AbstractEventLoop, speed: float = 1.0, name: str = "") -> None:
        self.replica: Engine = engine_for(profile, name, 0.0)
        self.prompt_tokens = 0  # of all finished jobs
        self.output_tokens = 0
        self.num_finished = 0
        self.num_aborted = 0
        self._loop = loop
        self._speed = speed
        self._started_at = loop.time()
        self._streams: dict[int, Stream] = {}  # of all jobs
        self._begun: dict[int, Stream] = {}  # of those with a first token
        self._num_jobs = 0
        self._timer: TimerHandle | None = None
        self._armed_for = 0.0

    def now(self) -> float:
        """Seconds of the engine's own time since its start."""
        return (self._loop.time() - self._started_at) * self._speed

    def next_id(self) -> int:
        """A job id that was not used before."""
        self._num_jobs += 1
        return self._num_jobs

    def submit(self, job: Job, sink: Sink) -> None:
        """Start a job. Raises ProfileError where the engine could never hold it."""
        now = self.now()
        self._run_to(now)
        try:
            self.replica.submit(now, job)
            self._streams[job.id] = Stream(job, sink)
        finally:
            self._arm()

    def cancel(self, job_id: int) -> None:
        """The client of a job went away: its slot and its blocks are free at once."""
        self._run_to(self.now())
        self._begun.pop(job_id, None)
        if self._streams.pop(job_id, None) is not None and self.replica.cancel(job_id):
            self.num_aborted += 1
        self._arm()

    def report(self) -> ReplicaReport:
        """The state after the last step that has ended."""
        self._run_to(self.now())
        self._arm()
        return self.replica.report(self.now())

    def close(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run_to(self, now: float) -> None:
        """End the steps that have ended by now, telling each token, step by step."""
        replica = self.replica
        while (end := replica.step_ends_at()) <= now:
            outputs = replica.advance(end)
            for output in outputs:
                if output.kind == FIRST_TOKEN:
                    self._begun[output.job.id] = self._streams[output.job.id]
            finished = [output.job for output in outputs if output.kind == FINISHED]
            for stream in list(self._begun.values()):  # a token may make its client leave
                if stream.job not in finished:
                    stream.tell(replica.output_so_far(stream.job))
            for job in finished:
                self._finish(job)

    def _finish(self, job: Job) -> None:
        stream = self._streams.pop(job.id)
        self._begun.pop(job.id, None)
        stream.tell(job.output_tokens)
        self.num_finished += 1
        self.prompt_tokens += job.prompt_tokens
        self.output_tokens += job.output_tokens
        stream.sink.finished(job)

    def _tick(self) -> None:
        self._timer = None
        self._run_to(self.now())
        self._arm()

    def _arm(self) -> None:
        end = self.replica.step_ends_at()
        if self._timer is not None:
            if end == self._armed_for:
                return
            self._timer.cancel()
            self._timer = None
        if end < float("inf"):
            self._armed_for = end
            self._timer = self._loop.call_at(self._started_at + end / self._speed, self._tick)
