"""An engine behind what delays a request before it can be scheduled: its HTTP server, a cold start, an adapter, KV
that must come up.

The engine inside knows nothing of it: a job enters it when all it needs is there, as if it came then. So its jumps stay
exact, and a delay is known to the very instant.
"""

from collections import OrderedDict, deque
from heapq import heappop, heappush
from math import inf
from typing import Final

from msgspec.structs import replace

from plimsoll.engine.features import Lora
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.enginestate import EngineState
from plimsoll.sim.engine import Counts, Engine
from plimsoll.sim.fitting import check
from plimsoll.sim.job import ENDED, FINISHED, FIRST_TOKEN, Job, Output
from plimsoll.sim.kvtiers import TieredKv
from plimsoll.slo.measured import Timing, TokenRun

PREPARE: Final = 0  # the engine is warm: see what the job needs
ENTER: Final = 1  # all is there


class Adapters:
    """LoRA slots: an adapter stays until its slot is needed and nobody uses it; loads go one after another."""

    def __init__(self, lora: Lora) -> None:
        self._slots = lora.slots
        self._load_time = lora.load_time
        self._loads_until = 0.0
        self._ready: OrderedDict[str, float] = OrderedDict()  # since when each is there, least recently used first
        self._users: dict[str, int] = {}
        self.num_loads = 0

    def take(self, name: str, at: float) -> float:
        """Use an adapter: when it is there; inf where every slot is in use by others."""
        if name not in self._ready:
            if len(self._ready) == self._slots:
                idle = next((other for other in self._ready if not self._users[other]), None)
                if idle is None:
                    return inf
                del self._ready[idle]
            self._loads_until = max(at, self._loads_until) + self._load_time
            self._ready[name] = self._loads_until
            self._users[name] = 0
            self.num_loads += 1
        self._ready.move_to_end(name)
        self._users[name] += 1
        return max(at, self._ready[name])

    def release(self, name: str) -> None:
        """One who used it has ended."""
        self._users[name] -= 1


class GatedReplica(Engine):
    """`inner` behind a gate. `start_at` is when the replica was started, which a cold start counts from."""

    def __init__(self, profile: EngineProfile, inner: Engine, start_at: float) -> None:
        self.profile = profile
        self.name = inner.name
        self.inner = inner
        self.tiers = TieredKv(profile.kv_tiers) if profile.kv_tiers else None
        self.adapters = Adapters(profile.lora) if profile.lora else None
        self._now = start_at
        self._started_at = start_at
        self._num_wakes = 1  # times its model was loaded
        self._cold = profile.cold_start
        self._warm_at = start_at + self._cold.seconds if self._cold else start_at
        self._quiet_since = self._warm_at  # since when it has nothing to do, where it has not
        self._agenda: list[tuple[float, int, int, Job]] = []
        self._num_seen = 0
        self._held: dict[int, Job] = {}  # outside the engine
        self._using: dict[int, Job] = {}  # those that hold a slot of their adapter
        self._parked: deque[Job] = deque()  # no slot for their adapter yet

    @property
    def num_jobs(self) -> int:
        """Jobs that it holds, waiting or running."""
        return len(self._held) + self.inner.num_jobs

    def submit(self, at: float, job: Job) -> None:
        """Hand a job over. Raises ProfileError where the engine could never hold it. Call `advance(at)` before."""
        check(self.profile, job)
        cold = self._cold
        if cold is not None and cold.asleep_after and self.num_jobs == 0 and at - self._quiet_since > cold.asleep_after:
            self._warm_at = at + cold.seconds
            self._num_wakes += 1
        self._held[job.id] = job
        ready = max(self._warm_at, at + self.profile.frontend)
        if ready > at:
            self._note(ready, PREPARE, job)
        else:
            self._prepare(job, at)

    def cancel(self, job_id: int) -> bool:
        """Drop a job; False where it is not here. Call `advance(at)` before."""
        at = self._now
        job = self._held.pop(job_id, None)
        if job is None:
            if not self.inner.cancel(job_id):
                return False
        else:
            job.state = ENDED
        self._ended(job_id, at)
        return True

    def next_at(self) -> float:
        """When something will next be told or enters; inf when idle."""
        return min(self.inner.next_at(), self._due())

    def step_ends_at(self) -> float:
        """When a step ends or something enters; inf when idle."""
        return min(self.inner.step_ends_at(), self._due())

    def advance(self, until: float) -> list[Output]:
        """All that happens up to an instant, in order."""
        outputs: list[Output] = []
        while (at := self.next_at()) <= until and at < inf:
            brought = self.inner.advance(at)
            self._now = at
            self._follow(brought)
            outputs += brought
            while self._due() <= at:
                _, _, kind, job = heappop(self._agenda)
                if kind == PREPARE:
                    self._prepare(job, at)
                else:
                    self._enter(job, at)
        if until < inf:
            self.inner.advance(until)
            self._now = until
        return outputs

    def runs(self, job: Job) -> list[TokenRun]:
        """The gaps after the first token of a job so far."""
        return self.inner.runs(job)

    def timing(self, job: Job, tokens: int) -> Timing:
        """What a client saw of a job's output tokens (> 0) so far."""
        return self.inner.timing(job, tokens)

    def output_so_far(self, job: Job) -> int:
        """Tokens that a job has produced by the last step that ended."""
        return self.inner.output_so_far(job)

    def resident(self, job: Job) -> int:
        """How many of a job's prefix hashes would be found in HBM now."""
        return self.inner.resident(job)

    def counts(self) -> Counts:
        """What the engine inside has done so far; hits are those in HBM or below."""
        return self.inner.counts()

    def report(self, at: float) -> ReplicaReport:
        """As the engine inside, with those before the gate among the waiting."""
        told = self.inner.report(at)
        return replace(told, waiting=(told.waiting or 0) + len(self._held))

    def retime(self, steps: StepTime) -> StepTime:
        """See `Engine`."""
        return self.inner.retime(steps)

    def state(self) -> EngineState:
        """As the engine inside, with adapters, its starts, and KV brought up from below."""
        adapters, tiers = self.adapters, self.tiers
        waiting = {job.adapter for job in self._held.values() if job.adapter}
        return replace(
            self.inner.state(),
            started_at=self._started_at if self._started_at > -inf else None,
            adapter_loads=adapters.num_loads if adapters is not None else None,
            adapters_waiting=len(waiting) if adapters is not None else None,
            model_loads=self._num_wakes if self._cold is not None else None,
            loaded_bytes=tiers.loaded_bytes if tiers is not None else None,
            loading_time=tiers.loading_time if tiers is not None else None,
        )

    # What happens to a job before it enters.

    def _note(self, at: float, kind: int, job: Job) -> None:
        self._num_seen += 1
        heappush(self._agenda, (at, self._num_seen, kind, job))

    def _due(self) -> float:
        agenda = self._agenda
        while agenda and agenda[0][3].state == ENDED:
            heappop(agenda)
        return agenda[0][0] if agenda else inf

    def _prepare(self, job: Job, at: float) -> None:
        ready = max(at, job.loaded_at)
        if self.adapters is not None and job.adapter:
            ready = max(ready, self.adapters.take(job.adapter, at))
            if ready == inf:
                self._parked.append(job)
                return
            self._using[job.id] = job
        if self.tiers is not None and job.hashes:
            ready = max(ready, self._load(self.tiers, job, at))
        if ready > at:
            self._note(ready, ENTER, job)
        else:
            self._enter(job, at)

    def _load(self, tiers: TieredKv, job: Job, at: float) -> float:
        whole = (job.prompt_tokens - 1) // job.hash_tokens
        found = self.inner.resident(job)
        reach, ready = tiers.load(at, job.hashes[:whole], found)
        if reach > found:
            job.loaded_from, job.loaded = found * job.hash_tokens, reach * job.hash_tokens
        return ready

    def _enter(self, job: Job, at: float) -> None:
        del self._held[job.id]
        self.inner.submit(at, job)

    # What follows from what the engine tells.

    def _follow(self, outputs: list[Output]) -> None:
        for output in outputs:
            job = output.job
            if self.tiers is not None and job.hashes:
                if output.kind == FIRST_TOKEN:
                    self.tiers.store(output.at, job.hashes[: job.prompt_tokens // job.hash_tokens], job.hash_tokens)
                elif output.kind == FINISHED:
                    whole = (job.prompt_tokens + max(0, job.output_tokens - 1)) // job.hash_tokens
                    self.tiers.store(output.at, job.hashes[:whole], job.hash_tokens)
            if output.kind == FINISHED:
                self._ended(job.id, output.at)

    def _ended(self, job_id: int, at: float) -> None:
        if self.num_jobs == 0:
            self._quiet_since = max(at, self._warm_at)
        job = self._using.pop(job_id, None)
        if job is None or self.adapters is None:
            return
        self.adapters.release(job.adapter)
        parked, self._parked = self._parked, deque()
        for waiting in parked:
            if waiting.state != ENDED:
                self._prepare(waiting, at)
