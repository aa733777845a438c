"""The simulated replicas of a policy's pools, each waking when something is to be told of it."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from math import inf

from msgspec.structs import replace

from plimsoll.engine.features import Disaggregation
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.errors import ProfileError
from plimsoll.governor.decisions import Reassign
from plimsoll.governor.events import ReplicaReport, ReplicasReported
from plimsoll.policy.policy import Policy, Pool
from plimsoll.sim.agenda import Wakes
from plimsoll.sim.engine import Counts, Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.gaptally import all_thresholds
from plimsoll.sim.job import Job, Output
from plimsoll.sim.outage import Outage
from plimsoll.sim.twohops import link_of
from plimsoll.slo.measured import Timing
from plimsoll.slo.sli import itl_thresholds


class Fleet:
    """All replicas, by number and by name. Raises ProfileError where a pool names no profile that is at hand."""

    def __init__(
        self,
        policy: Policy,
        profiles: Mapping[str, EngineProfile],
        start_at: float = -inf,
        listener: Callable[[ReplicasReported], None] | None = None,
        sketches: bool = True,
    ) -> None:
        self._listener = listener
        self._told_states = listener is not None or policy.scheduling.speculation is not None
        self._sketches = sketches
        self.replicas: list[Engine] = []
        self.adapters: list[tuple[str, ...]] = []  # by number: names of models that are LoRA adapters there
        self.numbers: dict[str, int] = {}
        self.profiles: list[EngineProfile] = []
        by_tier = {tier.name: itl_thresholds(tier.objectives) for tier in policy.tiers}
        self._known = known = all_thresholds(list(by_tier.values()))
        self.thresholds = {tier: tuple([known.index(one) for one in wanted]) for tier, wanted in by_tier.items()}
        """By tier: which of the thresholds that all replicas count are its own."""
        unknown = [pool.name for pool in policy.pools if pool.engine_profile not in profiles]
        if unknown:
            who = f"pool {unknown[0]} names" if len(unknown) == 1 else f"pools {', '.join(unknown)} name"
            raise ProfileError(
                f"{who} no profile: nobody knows how such engines behave. "
                "Give each pool a `profile`: a shipped one (docs/engines.md), or a file that `plimsoll calibrate` made"
            )
        self.takes_over: list[bool] = []  # by number: whether prompts may be computed for it elsewhere
        self.links: dict[int, Disaggregation] = {}  # by number, of engines that compute prompts: how caches leave them
        for pool in policy.pools:
            profile = profiles[pool.engine_profile]
            for name in pool.replicas:
                self._add(name, pool, replace(profile, disaggregation=None) if pool.prefill else profile, start_at)
        for pool in policy.pools:
            for name in pool.prefill:
                link = link_of(pool, profiles[pool.engine_profile])
                self.links[len(self.replicas)] = link
                self._add(name, pool, replace(profiles[pool.engine_profile], disaggregation=None), start_at)
        self.wakes = Wakes(len(self.replicas))
        self.down: set[int] = set()
        self.moves: list[Reassign] = []  # from pool to pool, since somebody took them
        self._ended: dict[int, Counts] = {}  # by number: what processes that are gone had done
        self._becomes: dict[int, deque[EngineProfile | None]] = defaultdict(deque)  # by number: at each coming up

    def _add(self, name: str, pool: Pool, profile: EngineProfile, start_at: float) -> None:
        self.numbers[name] = len(self.replicas)
        self.profiles.append(profile)
        self.takes_over.append(bool(pool.prefill))
        self.adapters.append(pool.adapters)
        self.replicas.append(
            engine_for(profile, name, start_at, self._known, self._sketches, takes_over=bool(pool.prefill))
        )

    def plan(self, outages: tuple[Outage, ...], profiles: Mapping[str, EngineProfile]) -> tuple[Outage, ...]:
        """Note as what replicas come up after their outages, which are in order of time; these outages.

        Raises ProfileError where one names a profile that is not at hand.
        """
        for outage in outages:
            if outage.profile and outage.profile not in profiles:
                raise ProfileError(f"{outage.replica} becomes {outage.profile}: no such profile is at hand")
            self._becomes[self.numbers[outage.replica]].append(profiles.get(outage.profile))
        return outages

    def submit(self, number: int, at: float, job: Job) -> list[Output]:
        """Hand a job over; what the replica had to tell by then. Raises ProfileError where it could never hold it."""
        replica = self.replicas[number]
        outputs = replica.advance(at)
        replica.submit(at, job)
        self.wakes.set(number, replica.next_at())
        return outputs

    def advance(self, number: int, at: float) -> list[Output]:
        """What the replica has to tell by then."""
        replica = self.replicas[number]
        outputs = replica.advance(at)
        self.wakes.set(number, replica.next_at())
        return outputs

    def cancel(self, number: int, job_id: int) -> None:
        """End a job, at the instant to which its replica was advanced."""
        replica = self.replicas[number]
        replica.cancel(job_id)
        self.wakes.set(number, replica.next_at())

    def timing(self, number: int, job: Job, tokens: int, *, streaming: bool) -> Timing:
        """How the tokens of a job came that has just ended there; of an answer in one piece only how many."""
        if tokens and streaming:
            return self.replicas[number].timing(job, tokens)
        return Timing(num_tokens=tokens, itl_bad=tuple([0] * len(job.thresholds)))

    def tell(self, at: float) -> ReplicasReported:
        """One tick's report; with what engines tell beyond their load where somebody listens, or drafts are looked at:
        what a governor decides may not hang on who listens."""
        if not self._told_states:
            return ReplicasReported(at, self.report(at))
        reports = [
            replace(report, engine=replica.state()) if report.healthy else report
            for report, replica in zip(self.report(at), self.replicas, strict=True)
        ]
        if self._listener is not None:
            self._listener(ReplicasReported(at, tuple(reports)))
        return ReplicasReported(at, tuple(reports))

    def report(self, at: float) -> tuple[ReplicaReport, ...]:
        """What all say of themselves. Everything due by then has been told before, so advancing brings nothing new."""
        reports = []
        for replica in self.replicas:
            replica.advance(at)
            reports.append(replica.report(at))
        for number in self.down:
            reports[number] = replace(reports[number], healthy=False)
        return tuple(reports)

    def retime(self, number: int, steps: StepTime) -> StepTime:
        """Let a replica's steps take another time from the next one on; the one of before."""
        replica = self.replicas[number]
        before = replica.retime(steps)
        self.wakes.set(number, replica.next_at())
        return before

    def counts(self, number: int) -> Counts:
        """What a replica has done so far, those processes among it that failed since."""
        now, before = self.replicas[number].counts(), self._ended.get(number)
        return now if before is None else now.after(before)

    def renew(self, number: int, at: float, *, down: bool) -> None:
        """A new process in a replica's place, its caches empty, cold where its profile says so; or none, when down."""
        if not down:
            self.down.discard(number)
            self.profiles[number] = self._becomes[number].popleft() or self.profiles[number]
        self._ended[number] = self.counts(number)
        self.replicas[number] = engine_for(
            self.profiles[number],
            self.replicas[number].name,
            at,
            self._known,
            self._sketches,
            takes_over=self.takes_over[number],
        )
        self.wakes.set(number, inf)
