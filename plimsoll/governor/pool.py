"""One pool at work: its replicas, its lanes of waiting requests, and what was learnt of it."""

from math import inf

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime, unloaded_ttft
from plimsoll.governor.adapters import UNKNOWN_SLOTS, LoadedAdapters
from plimsoll.governor.admission import Lending, floors_of, full_step
from plimsoll.governor.baseline import Baseline
from plimsoll.governor.classes import Classes
from plimsoll.governor.degradation import BATCH_OF_ONE, Ladder, ladder_by
from plimsoll.governor.events import ReplicaReport
from plimsoll.governor.hedgebudget import HedgeBudget
from plimsoll.governor.learned import Forests, Learned, forests_of
from plimsoll.governor.oversubscription import Oversubscription
from plimsoll.governor.predicting import Common, Predictor
from plimsoll.governor.prefill import PromptPace
from plimsoll.governor.prefiller import Prefiller
from plimsoll.governor.prefixes import PrefixIndex
from plimsoll.governor.promptfloors import PromptFloors
from plimsoll.governor.queueing import Lane
from plimsoll.governor.replicas import UNLIMITED, Replica
from plimsoll.governor.rules import Rule, Rules
from plimsoll.governor.servicefloors import ServiceFloors
from plimsoll.policy.objective import Sli
from plimsoll.policy.policy import Hedging, Order, Policy, Tier
from plimsoll.policy.policy import Pool as PoolPolicy
from plimsoll.policy.schedulingrules import Late, SaturationRule

DEFAULT_WAIT = 5.0  # s a lender waits for its floor where its tier has no TTFT objective
ADAPTER_TIME = 1.0  # s to load a LoRA adapter where no profile says
ADAPTER_TOKENS = 4096.0  # the same in token equivalents
PREFIX_HASHES = 65_536  # remembered where the capacity is not known


class Pool:
    """`index` is its place in the governor; replicas keep theirs (a bit in masks) as long as they are here."""

    def __init__(self, name: str, index: int) -> None:
        self.policy = PoolPolicy(name, "", "", ())
        self.name = name
        self.index = index
        self.open = True  # False: the policy no longer names it
        self.profile: EngineProfile | None = None
        self.steps: StepTime | None = None
        self.prompt_token_time = 0.0  # s a prompt token on an idle replica; with a profile …
        self.token_time = 0.0  # … and an output token
        self.replicas: list[Replica] = []
        self.num_serving = 1  # of them, those that belong here now; 1 where none does
        self.has_unsteady = False  # any of them
        self.visitors: tuple[str, ...] = ()  # another pool's, which may be lent to this one
        self.prefillers: list[Prefiller] = []  # engines that only compute prompts
        self.lanes: list[Lane] = []
        self.lending = Lending([], None)
        self.prefixes = PrefixIndex(PREFIX_HASHES)
        self.baseline = Baseline(None)
        self.prompt_pace = PromptPace()
        self.common = Common()
        self._forests: Forests | None = None  # what a log has taught of how engines differ from the profile
        self.classes: Classes | None = None
        self.hedges: HedgeBudget | None = None  # None: nobody is asked twice
        self.num_waiting = self.num_in_flight = 0
        self.pressed_since = 0.0  # from when on somebody has been waiting
        self.turn = 0  # of round robin
        self.context: int | None = None  # tokens of prompt and output that fit; None: nobody said
        self.prompt_from, self.prompt_below = 0, UNLIMITED
        self._shares: list[float] = []
        self._reserve_kv = True
        self.oversubscription = Oversubscription()
        # of the scheduling rules, at hand
        self.ladder: Ladder | None = None
        self.adapter_cost = ADAPTER_TIME  # of loading a LoRA adapter, in the unit of routing's costs
        self._one_at_a_time = False
        self.routing = ""
        self.engine_priority = False
        self.late_last = False  # who can no longer meet its objective waits behind its tenant's others
        self.preference = ""  # an order beside fair turns; "": none
        self.order_rule: Rule | None = None  # another package's …
        self.routing_rule: Rule | None = None
        self.bypasses = 0
        self.bypass_for = inf  # s
        self.strict = False
        self.saturation_limit = 1.0
        self.by_reports = False  # it is judged by what replicas say

    def apply(
        self, policy: PoolPolicy, whole: Policy, others: Rules, tiers: list[Tier], profile: EngineProfile | None
    ) -> None:
        """Take over a (new) policy and its rules of other packages. Nothing waits here now; what runs keeps running."""
        rules = whole.scheduling
        if profile != self.profile:  # what was learnt is how the engine differs from its profile
            self.common = Common()
            self._forests = forests_of(profile)
            for replica in self.replicas:
                replica.predictor = None
                for request in replica.in_flight.values():
                    request.predicted_ttft = request.predicted_itl = 0.0
        self.policy, self.open, self.profile = policy, True, profile
        self.steps = None if profile is None else StepTime(profile)
        self.token_time = 0.0 if self.steps is None else self.steps.decode(1, 1024)
        self.prompt_token_time = 0.0 if profile is None else unloaded_ttft(profile, 2048) / 2048.0
        self.prompt_pace.profile_time = self.prompt_token_time
        self.baseline.profile = profile
        self._reserve_kv = rules.reserve_kv
        self.oversubscription.apply(rules, 1 if profile is None else profile.num_engines)
        self.ladder = ladder_by(whole.degradation, self.ladder)
        self._one_at_a_time = self.ladder is not None and self.ladder.holds(BATCH_OF_ONE)
        self.routing = str(rules.routing)
        self.routing_rule, self.order_rule = others.routing, others.order
        self.bypasses, self.bypass_for = rules.bypasses, rules.bypass_for
        self.engine_priority = policy.engine_priority
        self._hedge_by(rules.hedging)
        self.strict = rules.strict
        self.by_reports = rules.saturation is SaturationRule.REPORTED
        held = rules.reserve_kv or self.by_reports
        self.saturation_limit = float(rules.saturation_limit) if held else float(UNLIMITED)
        fair = rules.order != Order.FCFS
        self.late_last = fair and rules.late is Late.LAST
        self.preference = "" if rules.order in {Order.FAIR, Order.TURNS, Order.FCFS} else str(rules.order)
        lanes = tiers if rules.tiers_matter else []
        self._shares = [float(tier.share) for tier in lanes] or [0.0]
        classes = Classes(rules.classes) if rules.classes else None
        self.classes = classes
        trickles = [float(tier.trickle) for tier in lanes] or [0.0]
        self.lanes = [Lane(fair=fair, trickle=trickle, classes=classes) for trickle in trickles]
        for lane in self.lanes:
            lane.by_turns = rules.order == Order.TURNS
            lane.deficit = float(rules.deficit) if self.preference else 0.0
        self._start_lending([wait_of(tier) for tier in lanes] or [DEFAULT_WAIT])
        self._place_replicas(policy.replicas)
        known = {prefiller.name: prefiller for prefiller in self.prefillers}
        self.prefillers = [known.get(name) or Prefiller(name) for name in policy.prefill]
        for replica in self.replicas:
            self.resize(replica)
            self._predict_for(replica)
            self._adapt(replica)
        self._size_prefixes()
        self._bound_prompts()

    def close_risks(self, keeps: list[bool], *, oversubscribes: bool) -> None:
        """By tier in order of rank, whether a tenant's budget forbids to lend its floor on time."""
        self.lending.closed = keeps if len(keeps) == len(self.lanes) else [any(keeps)] * len(self.lanes)
        self.oversubscription.closed = not oversubscribes
        for replica in self.replicas:
            self.oversubscription.put(replica)

    def _predict_for(self, replica: Replica) -> None:
        if self.routing != "predicted" or self.steps is None or self.profile is None:
            replica.predictor = replica.learned = None
        elif replica.predictor is None:
            replica.predictor = Predictor(self.profile, self.steps, self.common)
            replica.learned = None if self._forests is None else Learned(self._forests)

    def _adapt(self, replica: Replica) -> None:
        """Remember adapters where the pool serves any; loading one costs what the profile says, else about a second."""
        lora = None if self.profile is None else self.profile.lora
        self.adapter_cost = ADAPTER_TIME if lora is None else lora.load_time
        if self.steps is None:
            self.adapter_cost = ADAPTER_TOKENS
        if not self.policy.adapters:
            replica.loaded = None
        elif replica.loaded is None:
            replica.loaded = LoadedAdapters(UNKNOWN_SLOTS if lora is None else lora.slots)

    def _hedge_by(self, rules: Hedging | None) -> None:
        predicts = self.routing == "predicted" and self.steps is not None
        if rules is None:
            self.hedges = None
        elif self.hedges is None or self.hedges.rules != rules or self.hedges.predicts != predicts:
            self.hedges = HedgeBudget(rules, predicts=predicts)

    def level_changed(self) -> None:
        """The ladder was climbed or left by a level: replicas take one request at a time, or as many as before."""
        one = self.ladder is not None and self.ladder.holds(BATCH_OF_ONE)
        if one != self._one_at_a_time:
            self._one_at_a_time = one
            for replica in self.replicas:
                self.resize(replica)

    def close(self) -> None:
        """The policy no longer names this pool: it finishes what it runs."""
        self.open = False
        for replica in self.replicas:
            replica.leaving = True

    def resize(self, replica: Replica) -> None:
        """Take the replica's capacity and floors from what is known now."""
        replica.set_capacity(
            self.profile,
            1 if self._one_at_a_time else self.policy.max_concurrency,
            reserve_kv=self._reserve_kv,
        )
        self.oversubscription.put(replica)
        for request in replica.in_flight.values():
            self.lending.unbook(request)
        bounded = replica.in_blocks and replica.slots < UNLIMITED
        replica.set_floors(
            floors_of(self._shares, replica.capacity, in_blocks=replica.in_blocks),
            floors_of(self._shares, replica.slots, in_blocks=False) if bounded else [],
        )

    def _bound_prompts(self) -> None:
        """Which prompts belong here, and how long a context may get."""
        self.context = self._max_context()
        self.prompt_from = self.policy.min_prompt_tokens
        self.prompt_below = UNLIMITED if self.context is None else self.context
        if self.policy.max_prompt_tokens is not None:
            self.prompt_below = min(self.prompt_below, self.policy.max_prompt_tokens)

    def _max_context(self) -> int | None:
        if self.policy.max_context is not None:
            return self.policy.max_context
        told = [replica.told_context for replica in self.replicas if replica.told_context]
        if told:
            return max(told)
        return None if self.profile is None else self.profile.max_context

    def reported(self, replica: Replica, report: ReplicaReport) -> None:
        """A replica's own word."""
        first, was_healthy = replica.report is None, replica.healthy
        blocks, block_size, context = replica.told_blocks, replica.told_block_size, replica.told_context
        replica.reported(report)
        if was_healthy and not replica.healthy:
            self.prefixes.forget(replica.bit)  # when it comes back its cache is empty
        if first or _says_anew(replica.told_blocks, blocks) or _says_anew(replica.told_block_size, block_size):
            self.resize(replica)
            self._size_prefixes()
        elif self.oversubscription.use is not None:
            self.oversubscription.put(replica)
        if first or replica.told_context != context:
            self._bound_prompts()

    def has_hope(self) -> bool:
        """Whether a replica's last report was good: it may be full, busy or just have refused a connection."""
        for replica in self.replicas:  # noqa: SIM110 - a generator costs more, and this is on the path
            if replica.says_well and not replica.leaving:
                return True
        return False

    def reachable(self, tried: int) -> bool:
        """Whether any replica is up that did not fail the request yet."""
        return any(r.healthy and not r.leaving and not r.bit & tried for r in self.replicas)

    def _start_lending(self, waits: list[float]) -> None:
        before = self.lending
        slowest = None
        if self.profile is not None:
            capacity = self.profile.num_blocks * self.profile.block_size
            slowest = full_step(self.steps, self.profile.max_num_seqs, capacity)
        for replica in self.replicas:
            for request in replica.in_flight.values():
                request.release_bucket = -1
        served = ServiceFloors(self.lanes, self._shares if self._reserve_kv else [0.0] * len(self._shares))
        self.lending = Lending(waits, slowest, PromptFloors(self._shares, waits), served)
        if self.profile is not None:
            served.step_tokens = self.profile.max_batched_tokens
            self.lending.prompts.time_by(self.profile)
        self.lending.held, self.lending.held_bound = before.held, before.held_bound

    def _place_replicas(self, names: tuple[str, ...]) -> None:
        names = (*names, *self.visitors)
        for replica in self.replicas:
            replica.leaving, replica.away = replica.name not in names, False
        here = {replica.name for replica in self.replicas}
        for name in names:
            if name not in here:
                self._place(name)
        self.count_serving()

    def count_serving(self) -> None:
        """Replicas have come or gone."""
        self.num_serving = max(1, sum([not replica.leaving for replica in self.replicas]))
        self.lending.prompts.num_replicas = self.lending.service.num_replicas = self.num_serving

    def _place(self, name: str) -> None:
        """A new replica takes the place of one that has left, else a new one."""
        for index, replica in enumerate(self.replicas):
            if replica.leaving and replica.num_in_flight == 0:
                self.prefixes.forget(replica.bit)
                self.replicas[index] = Replica(name, index)
                return
        self.replicas.append(Replica(name, len(self.replicas)))

    def _size_prefixes(self) -> None:
        blocks = sum([replica.capacity * replica.block_size for replica in self.replicas if replica.in_blocks])
        if blocks:
            self.prefixes.set_size(blocks // 256)


def wait_of(tier: Tier) -> float:
    """Seconds that a tier waits for its floor to come back."""
    if tier.wait is not None:
        return tier.wait
    thresholds = [objective.below for objective in tier.objectives if objective.sli is Sli.TTFT]
    return min(thresholds, default=DEFAULT_WAIT)


def _says_anew(now: int | None, before: int | None) -> bool:
    """Whether a report tells a figure, and another one than the report before."""
    return now is not None and now != before
