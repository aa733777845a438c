"""What every form of simulated engine does, whatever is inside."""

from typing import NamedTuple

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.enginestate import EngineState
from plimsoll.sim.job import Job, Output
from plimsoll.sim.kvcache import KvCache, reach
from plimsoll.slo.measured import Timing, TokenRun


class Counts(NamedTuple):
    """What an engine has done so far."""

    num_steps: int  # ended ones
    num_preemptions: int
    prefix_queries: int  # prompt tokens looked up in the prefix cache
    prefix_hits: int  # of these, found
    num_beyond_fit: int  # steps outside the range that the profile was fitted on

    def after(self, before: "Counts") -> "Counts":
        """These on top of those of a process before it."""
        return Counts(*[now + then for now, then in zip(self, before, strict=True)])


class Work(NamedTuple):
    """What an engine does at an instant, and has made of it so far."""

    num_seqs: int  # that decode
    context: int  # KV tokens that they hold
    guesses: int  # draft tokens that are verified beside
    num_made: int  # tokens decoded since its start


class Engine:
    """`advance(until)` comes before every `submit(at, job)` or `cancel(id)`. Instants never go back."""

    profile: EngineProfile
    name: str
    kv: KvCache  # of those that have one of their own, as
    _jobs: dict[int, Job]  # what they hold, by id
    _steps: StepTime  # of those that take steps themselves

    @property
    def num_jobs(self) -> int:
        """Jobs that it holds, waiting or running."""
        return len(self._jobs)

    def submit(self, at: float, job: Job) -> None:
        """Hand a job over. Raises ProfileError where the engine could never hold it."""
        raise NotImplementedError

    def cancel(self, job_id: int) -> bool:
        """Drop a job at the instant last advanced to; False where it is not here."""
        raise NotImplementedError

    def next_at(self) -> float:
        """When something will next be told, if nothing is submitted or cancelled before; inf when idle."""
        raise NotImplementedError

    def step_ends_at(self) -> float:
        """When something next ends inside; inf when idle."""
        raise NotImplementedError

    def advance(self, until: float) -> list[Output]:
        """What happened up to an instant, in order."""
        raise NotImplementedError

    def runs(self, job: Job) -> list[TokenRun]:
        """The gaps after the first token of a job so far; once it has FINISHED, ask before the engine moves on."""
        raise NotImplementedError

    def timing(self, job: Job, tokens: int) -> Timing:
        """What a client saw of a job's output tokens (> 0) so far."""
        raise NotImplementedError

    def output_so_far(self, job: Job) -> int:
        """Tokens that a job has produced by the last step that ended."""
        raise NotImplementedError

    def resident(self, job: Job) -> int:
        """How many of a job's prefix hashes would be found in HBM now."""
        return reach(self.kv.match(job.hashes, (job.prompt_tokens - 1) // job.hash_tokens))

    def counts(self) -> Counts:
        """What it has done so far."""
        raise NotImplementedError

    def report(self, at: float) -> ReplicaReport:
        """What it would say of itself. Call `advance(at)` before."""
        raise NotImplementedError

    def retime(self, steps: StepTime) -> StepTime:
        """Take another time for its steps, from the next one on: a fault, or its end; the one of before."""
        before, self._steps = self._steps, steps
        return before

    def work(self) -> Work:
        """The step that runs now, at the instant last advanced to."""
        raise NotImplementedError

    def state(self) -> EngineState:
        """What it would tell beyond its load, at the instant last advanced to."""
        work, steps = self.work(), self._steps
        tokens = work.num_seqs + work.guesses
        return EngineState(
            output_tokens=work.num_made,
            balancedness=steps.balancedness(tokens) if work.num_seqs else None,
            memory_active=steps.at_work(work.num_seqs, work.context, work.guesses) if work.num_seqs else None,
        )
