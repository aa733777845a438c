"""Prefill and decode on engines of their own, behind one endpoint: what a proxy before vLLM's NIXL connector does.

A request's prompt is computed by the prefill engine with the fewest prompt tokens before it; its KV then travels over
that engine's link, one transfer after another, to the decode engine with the fewest requests, which computes the
prompt's last token anew and with it makes the first token. A decode engine that preempts a request computes its prompt
again by itself.
"""

from heapq import heappop, heappush
from math import inf
from typing import Final

from msgspec.structs import replace

from plimsoll.engine.features import Disaggregation
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.events import ReplicaReport
from plimsoll.requestlog.enginestate import EngineState
from plimsoll.sim.engine import Counts, Engine
from plimsoll.sim.fitting import check
from plimsoll.sim.job import ENDED, FINISHED, FIRST_TOKEN, Job, Output
from plimsoll.slo.measured import Timing, TokenRun

NOWHERE: Final = -1


class Journey:
    """Where a request is on its way."""

    def __init__(self, job: Job, prefill: int) -> None:
        self.job = job
        self.prefill = prefill
        self.prompt: Job | None = None  # its part on the prefill engine, while it is there
        self.cached_tokens = 0


class DisaggregatedReplica(Engine):
    """`prefill` and `decode` are the engines of each part."""

    def __init__(
        self, profile: EngineProfile, parts: Disaggregation, name: str, prefill: list[Engine], decode: list[Engine]
    ) -> None:
        self.profile = profile
        self.name = name
        self.prefill = prefill
        self.decode = decode
        self._parts = parts
        self._links = [0.0] * len(self.prefill)  # until when each is taken
        self._ahead = [0] * len(self.prefill)  # prompt tokens not computed yet
        self._bound = [0] * len(self.decode)  # requests there or on their way there
        self._journeys: dict[int, Journey] = {}
        self._arrivals: list[tuple[float, int, Journey]] = []
        self._num_seen = 0
        self._now = 0.0

    @property
    def num_jobs(self) -> int:
        """Jobs that it holds, waiting, travelling or running."""
        return len(self._journeys)

    def submit(self, at: float, job: Job) -> None:
        """Hand a job over. Raises ProfileError where the engines could never hold it. Call `advance(at)` before."""
        check(self.profile, job)
        number = min(range(len(self.prefill)), key=lambda index: (self._ahead[index], index))
        journey = Journey(job, number)
        prompt = Job(job.id, job.prompt_tokens, 0, job.hashes[: job.prompt_tokens // job.hash_tokens], job.hash_tokens)
        prompt.priority, prompt.adapter, prompt.tenant, prompt.dice = job.priority, job.adapter, job.tenant, job.dice
        self.prefill[number].submit(at, prompt)
        journey.prompt = prompt
        self._ahead[number] += job.prompt_tokens
        self._journeys[job.id] = journey

    def cancel(self, job_id: int) -> bool:
        """Drop a job; False where it is not here. Call `advance(at)` before."""
        journey = self._journeys.pop(job_id, None)
        if journey is None:
            return False
        if journey.prompt is not None:
            self._ahead[journey.prefill] -= journey.job.prompt_tokens
            self.prefill[journey.prefill].cancel(job_id)
        else:
            self._bound[journey.job.engine] -= 1
            self.decode[journey.job.engine].cancel(job_id)
        journey.job.state = ENDED
        return True

    def next_at(self) -> float:
        """When something will next be told or moves on; inf when idle."""
        return min([self._due(), *(engine.next_at() for engine in (*self.prefill, *self.decode))])

    def step_ends_at(self) -> float:
        """When a step ends or a transfer; inf when idle."""
        return min([self._due(), *(engine.step_ends_at() for engine in (*self.prefill, *self.decode))])

    def advance(self, until: float) -> list[Output]:
        """All that happens up to an instant, in order: prefill engines first, then decode engines, then transfers."""
        outputs: list[Output] = []
        while (at := self.next_at()) <= until and at < inf:
            self._now = at
            for engine in self.prefill:
                self._send_on([output for output in engine.advance(at) if output.kind == FINISHED], outputs)
            for engine in self.decode:
                self._tell(engine.advance(at), outputs)
            while self._due() <= at:
                _, _, journey = heappop(self._arrivals)
                self.decode[journey.job.engine].submit(at, journey.job)
        if until < inf:
            self._now = until
            for engine in (*self.prefill, *self.decode):
                engine.advance(until)
        return outputs

    def runs(self, job: Job) -> list[TokenRun]:
        """The gaps after the first token of a job so far."""
        return self.decode[job.engine].runs(job) if job.engine != NOWHERE else []

    def timing(self, job: Job, tokens: int) -> Timing:
        """What a client saw of a job's output tokens (> 0) so far."""
        if job.engine == NOWHERE:
            return Timing(num_tokens=tokens)
        return self.decode[job.engine].timing(job, tokens)

    def output_so_far(self, job: Job) -> int:
        """Tokens that a job has produced by the last step that ended."""
        return self.decode[job.engine].output_so_far(job) if job.engine != NOWHERE else 0

    def resident(self, job: Job) -> int:
        """The most of a job's prefix hashes that any prefill engine would find in HBM now."""
        return max(engine.resident(job) for engine in self.prefill)

    def counts(self) -> Counts:
        """What all engines have done so far; prompts are looked up by the prefill engines."""
        before, after = [engine.counts() for engine in self.prefill], [engine.counts() for engine in self.decode]
        return Counts(
            sum(one.num_steps for one in (*before, *after)),
            sum(one.num_preemptions for one in (*before, *after)),
            sum(one.prefix_queries for one in before),
            sum(one.prefix_hits for one in before),
            sum(one.num_beyond_fit for one in (*before, *after)),
        )

    def report(self, at: float) -> ReplicaReport:
        """Requests of both parts; the KV of the decode engines, which hold requests longest."""
        told = [engine.report(at) for engine in self.decode]
        before = [engine.report(at) for engine in self.prefill]
        counts = self.counts()
        travelling = sum(journey.job.state != ENDED for _, _, journey in self._arrivals)
        return replace(
            told[0],
            replica=self.name,
            running=sum(one.running or 0 for one in (*told, *before)),
            waiting=sum(one.waiting or 0 for one in (*told, *before)) + travelling,
            kv_usage=sum(one.kv_usage or 0.0 for one in told) / len(told),
            kv_blocks=sum(one.kv_blocks or 0 for one in told),
            prefix_queries=None if before[0].prefix_queries is None else counts.prefix_queries,
            prefix_hits=None if before[0].prefix_hits is None else counts.prefix_hits,
            preemptions=sum(one.preemptions or 0 for one in told),
        )

    def state(self) -> EngineState:
        """Of several engines behind one name nobody tells more than their load."""
        return EngineState()

    def _due(self) -> float:
        arrivals = self._arrivals
        while arrivals and arrivals[0][2].job.state == ENDED:
            heappop(arrivals)
        return arrivals[0][0] if arrivals else inf

    def _send_on(self, finished: list[Output], outputs: list[Output]) -> None:
        """Prompts that are computed: their KV begins its way, or they are done where no tokens are wanted."""
        for output in finished:
            journey = self._journeys[output.job.id]
            job, parts = journey.job, self._parts
            job.cached_tokens = journey.cached_tokens = output.job.cached_tokens
            journey.prompt = None
            self._ahead[journey.prefill] -= job.prompt_tokens
            if job.output_tokens == 0:
                del self._journeys[job.id]
                job.state = ENDED
                outputs.append(Output(FINISHED, output.at, job))
                continue
            seconds = parts.latency + job.prompt_tokens * parts.bytes_per_token / parts.bandwidth
            self._links[journey.prefill] = max(output.at, self._links[journey.prefill]) + seconds
            job.engine = min(range(len(self.decode)), key=lambda index: (self._bound[index], index))
            job.loaded = job.prompt_tokens - 1
            self._bound[job.engine] += 1
            self._num_seen += 1
            heappush(self._arrivals, (self._links[journey.prefill], self._num_seen, journey))

    def _tell(self, brought: list[Output], outputs: list[Output]) -> None:
        for output in brought:
            journey = self._journeys[output.job.id]
            if output.kind == FIRST_TOKEN:
                output.job.cached_tokens = journey.cached_tokens
            elif output.kind == FINISHED:
                del self._journeys[output.job.id]
                self._bound[output.job.engine] -= 1
        outputs += brought
