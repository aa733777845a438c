"""The simulated replicas of a policy's pools, each waking when something is to be told of it."""

from collections.abc import Mapping
from math import inf

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError
from plimsoll.governor.events import ReplicaReport
from plimsoll.policy.policy import Policy
from plimsoll.sim.agenda import REPLICA, Agenda
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.gaptally import all_thresholds
from plimsoll.sim.job import Job, Output
from plimsoll.slo.sli import itl_thresholds


class Fleet:
    """All replicas, by number and by name. Raises ProfileError where a pool names no profile that is at hand."""

    def __init__(
        self, policy: Policy, profiles: Mapping[str, EngineProfile], agenda: Agenda, start_at: float = -inf
    ) -> None:
        self.replicas: list[Engine] = []
        self.adapters: list[tuple[str, ...]] = []  # by number: names of models that are LoRA adapters there
        self.numbers: dict[str, int] = {}
        self.profiles: list[EngineProfile] = []
        self._agenda = agenda
        by_tier = {tier.name: itl_thresholds(tier.objectives) for tier in policy.tiers}
        known = all_thresholds(list(by_tier.values()))
        self.thresholds = {tier: tuple([known.index(one) for one in wanted]) for tier, wanted in by_tier.items()}
        """By tier: which of the thresholds that all replicas count are its own."""
        for pool in policy.pools:
            if pool.profile is None or pool.profile not in profiles:
                raise ProfileError(f"pool {pool.name} names no profile: nobody knows how its engines behave")
            for name in pool.replicas:
                self.numbers[name] = len(self.replicas)
                self.profiles.append(profiles[pool.profile])
                self.replicas.append(engine_for(profiles[pool.profile], name, start_at, known))
                self.adapters.append(pool.adapters)
        self._armed = [inf] * len(self.replicas)
        self._stamps = [0] * len(self.replicas)

    def submit(self, number: int, at: float, job: Job) -> list[Output]:
        """Hand a job over; what the replica had to tell by then. Raises ProfileError where it could never hold it."""
        replica = self.replicas[number]
        outputs = replica.advance(at)
        replica.submit(at, job)
        self._arm(number)
        return outputs

    def advance(self, number: int, at: float) -> list[Output]:
        """What the replica has to tell by then."""
        outputs = self.replicas[number].advance(at)
        self._arm(number)
        return outputs

    def cancel(self, number: int, job_id: int) -> None:
        """End a job, at the instant to which its replica was advanced."""
        self.replicas[number].cancel(job_id)
        self._arm(number)

    def due(self, number: int, stamp: int, at: float) -> list[Output]:
        """The agenda says that a replica has something to tell; it may have been told meanwhile that it has not."""
        if stamp != self._stamps[number]:
            return []
        self._armed[number] = inf
        outputs = self.replicas[number].advance(at)
        self._arm(number)
        return outputs

    def report(self, at: float) -> tuple[ReplicaReport, ...]:
        """What all say of themselves. Everything due by then has been told before, so advancing brings nothing new."""
        for replica in self.replicas:
            replica.advance(at)
        return tuple([replica.report(at) for replica in self.replicas])

    def _arm(self, number: int) -> None:
        at = self.replicas[number].next_at()
        if at == self._armed[number]:
            return
        self._stamps[number] += 1
        self._armed[number] = at
        if at < inf:
            self._agenda.put(at, REPLICA, number, self._stamps[number])
