"""The engine model on the wall clock: jobs in, one call a token out, at the instants the model says."""

from array import array
from asyncio import AbstractEventLoop, TimerHandle
from typing import Protocol

from plimsoll.emulator.kvevents import Event, KvPublisher, removed, stored
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.governor.events import ReplicaReport
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, Job
from plimsoll.sim.kvcache import KvCache


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


class CacheTeller:
    """Makes events of what a prefix cache did since it last told."""

    def __init__(self, kv: KvCache, publisher: KvPublisher) -> None:
        self.prompts: dict[int, tuple[Job, bytes]] = {}  # of the jobs in the engine
        self._publisher = publisher
        self._did: list[tuple[bool, tuple[object, ...], int, int]] = []
        kv.told = self._did

    def tell(self) -> None:
        """One batch, where it did anything."""
        if not self._did:
            return
        events = [self._event(*done) for done in self._did]
        self._did.clear()
        self._publisher.publish(events)

    def _event(self, was_stored: bool, hashes: tuple[object, ...], start: int, stop: int) -> Event:
        if not was_stored:
            return removed(hashes, start, stop)
        job, ids = next(each for each in self.prompts.values() if each[0].hashes is hashes)
        size = 4 * job.hash_tokens
        return stored(hashes, start, stop, array("I", ids[start * size : stop * size]).tolist(), job.hash_tokens)


class EmulatedEngine:
    """One replica of `profile` whose clock runs `speed` times as fast as the loop's."""

    def __init__(
        self,
        profile: EngineProfile,
        loop: AbstractEventLoop,
        speed: float = 1.0,
        name: str = "",
        publisher: KvPublisher | None = None,
    ) -> None:
        """What its prefix cache stores and drops goes to `publisher`; ProfileError where it has no one cache."""
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
        self._cache: CacheTeller | None = None
        if publisher is not None:
            kv = getattr(self.replica, "kv", None)
            if not isinstance(kv, KvCache):
                raise ProfileError(f"profile {profile.name}: its engine has no one prefix cache")
            self._cache = CacheTeller(kv, publisher)

    def now(self) -> float:
        """Seconds of the engine's own time since its start."""
        return (self._loop.time() - self._started_at) * self._speed

    def next_id(self) -> int:
        """A job id that was not used before."""
        self._num_jobs += 1
        return self._num_jobs

    def submit(self, job: Job, sink: Sink, ids: bytes = b"") -> None:
        """Start a job; `ids` are its prompt's tokens, 4 bytes each. Raises ProfileError where it can never be held."""
        now = self.now()
        self._run_to(now)
        try:
            if self._cache is not None:
                self._cache.prompts[job.id] = (job, ids)
            self.replica.submit(now, job)
            self._streams[job.id] = Stream(job, sink)
        finally:
            self._tell_cache()
            self._arm()

    def cancel(self, job_id: int) -> None:
        """The client of a job went away: its slot and its blocks are free at once."""
        self._run_to(self.now())
        self._begun.pop(job_id, None)
        if self._streams.pop(job_id, None) is not None and self.replica.cancel(job_id):
            self.num_aborted += 1
        self._tell_cache()
        self._forget(job_id)
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
            self._tell_cache()
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
        self._forget(job.id)
        self._begun.pop(job.id, None)
        stream.tell(job.output_tokens)
        self.num_finished += 1
        self.prompt_tokens += job.prompt_tokens
        self.output_tokens += job.output_tokens
        stream.sink.finished(job)

    def _tell_cache(self) -> None:
        if self._cache is not None:
            self._cache.tell()

    def _forget(self, job_id: int) -> None:
        if self._cache is not None:
            self._cache.prompts.pop(job_id, None)

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
