"""What was promised: the whole policy as frozen values. `document.load` makes one from YAML."""

from enum import StrEnum
from fractions import Fraction
from math import inf
from typing import Final

from msgspec import Struct

from plimsoll.policy.alerts import AlertRules
from plimsoll.policy.beside import EngineTls, ExactPrefixes, Exporters
from plimsoll.policy.budget import BudgetRules
from plimsoll.policy.matrix import TARGET, TierClasses
from plimsoll.policy.objective import Objective, RunObjective
from plimsoll.policy.plugins import Plugin
from plimsoll.policy.schedulingrules import Late, RequestClass, SaturationRule, SpeculationRules


class UpstreamTrust(StrEnum):
    """Who may report upstream time."""

    NONE = "none"
    HEADER = "header"
    SIGNED = "signed"
    MEASURED = "measured"


class Service(Struct, frozen=True):
    """What holds for the whole service."""

    timezone: str = "UTC"
    period: str = "month"
    shared_pool: Fraction = Fraction(1, 5)  # 15 % to 25 %
    upstream_time: UpstreamTrust = UpstreamTrust.NONE
    upstream_secrets: tuple[str, ...] = ()  # environment variables, or files (with a slash), that hold a secret each
    upstream_window: float = 300.0  # s for which a signature is good
    judge_non_streaming: bool = False
    censored_limit: Fraction = Fraction(1, 5)  # above this share of censored requests: "not judged"


CAPABLE: Final = "capable"


class Tier(Struct, frozen=True):
    """A class of service. `share` is a floor of each replica; idle floor is lent."""

    name: str
    rank: int  # 0 is highest
    share: Fraction = Fraction(0)
    trickle: Fraction = Fraction(0)  # tokens of credit earned per token charged to the other tiers
    exchange: Fraction = Fraction(1)
    sheddable: bool = False
    wait: float | None = None  # s a lender may wait for its floor; None: its TTFT threshold, else 5 s
    queue_limit: int = 1000  # requests waiting in this tier, all tenants
    queue_timeout: float = 60.0  # s in the queue before a request expires
    objectives: tuple[Objective, ...] = ()  # always ends with an availability objective
    run: RunObjective | None = None  # of agents' runs
    prefer: str = ""  # CAPABLE: replicas that stall more often than others are avoided
    classes: TierClasses | None = None  # of pools that it may use; None: all

    @property
    def promised(self) -> tuple[Objective, ...]:
        """All that has an error budget: the objectives, and that of runs."""
        return self.objectives if self.run is None else (*self.objectives, self.run.objective)


class Adapt(Struct, frozen=True):
    """How far a tenant's token rate may follow how it is served, as shares of `tokens_per_minute`."""

    floor: Fraction = Fraction(1, 2)
    burst: Fraction = Fraction(3, 2)


class Limits(Struct, frozen=True):
    """A tenant's own limits; refusals by these are excluded from its objectives."""

    concurrency: int | None = None  # requests in flight or queued
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None  # prompt estimate + reserved output on arrival, settled on finish
    queue: int | None = None  # requests waiting
    adapt: Adapt | None = None  # None: the token rate stands


class Tenant(Struct, frozen=True):
    """Who is charged. `keys` are `sha256:<hex>` digests, several for rotation."""

    name: str
    tier: str
    keys: tuple[str, ...] = ()
    limits: Limits = Limits()
    weight: Fraction = Fraction(1)  # share within its tier
    committed: int | None = None  # requests a period
    timezone: str | None = None
    require_cause: bool = False
    default_cause: str = ""  # of requests that name none
    tiers: tuple[str, ...] = ()  # other tiers it may ask for by header


class Adaptive(Struct, frozen=True):
    """A pool that shares its replicas with another: how many it has follows what the two have to do, within bounds."""

    pool: str  # the other one
    max: int
    min: int = 1
    dwell: float = 30.0  # s between two moves at least; what there is to do is a mean over half of it
    above: float = 0.75  # use of a pool's replicas from which it asks for one of the other's


class Pool(Struct, frozen=True):
    """A set of replicas with one purpose. Prompt ranges are half-open: min <= n < max."""

    name: str
    model: str
    engine: str  # vllm | sglang | trtllm | tgi | llamacpp | openai (no metrics known)
    replicas: tuple[str, ...]  # base URLs; the URL is the replica's name
    min_prompt_tokens: int = 0
    max_prompt_tokens: int | None = None
    max_context: int | None = None  # tokens, prompt + output; None: as the profile or the engine says
    max_concurrency: int | None = None  # requests a replica; required where neither profile nor engine tells capacity
    profile: str | None = None
    degrade_target: bool = False
    aliases: tuple[str, ...] = ()  # other names under which clients may ask for the model
    adapters: tuple[str, ...] = ()  # LoRA adapters that its replicas serve, by the names that clients ask for
    engine_key: str | None = None  # name of an environment variable with the key that the engine wants
    tls: EngineTls = EngineTls()
    prefill: tuple[str, ...] = ()  # base URLs of engines that only compute prompts; the cache goes to a replica
    prefill_from: int = 0  # prompt tokens from which that is worth the way
    engine_priority: bool = False  # the engine schedules by `priority`: the tier's rank goes along
    exporters: Exporters = Exporters()
    speculation: str = ""  # on | off | switch: whether its engines draft; "": not said
    sla_class: str = ""  # by which tiers name it; "": every tier may use it, after those that it names
    built_for: float | None = None  # s to a first token that pools of its class are built for
    kv_events: tuple[str, ...] = ()  # ZeroMQ endpoints of the engines' KV cache events, one a replica
    quality: float | None = None  # of its model's answers, on any scale; None: not said
    adaptive: Adaptive | None = None  # None: it has its own replicas
    overrides: str = ""  # JSON: what differs from the profile, section by section; "" where nothing does
    exact_prefixes: ExactPrefixes | None = None  # None: by what was sent where
    predictor: str = ""  # file with what a log taught of predictions by the profile (`plimsoll learn`); "": nothing

    @property
    def engine_profile(self) -> str:
        """What its engine profile is known by: other overrides or another predictor make another one."""
        return " ".join([each for each in (self.profile, self.overrides, self.predictor) if each and self.profile])


class Trigger(Struct, frozen=True):
    """When degradation steps up: a quantile above a threshold for a time, or a pool that full for as long."""

    p99_of: str = "itl"
    above: float = inf  # s
    for_: float = 180.0  # s
    saturation: Fraction | None = None  # of the pool; None: not looked at


class Degradation(Struct, frozen=True):
    """The ladder. Level 0 is none; level k means the first k entries of `levels` hold."""

    when: Trigger = Trigger()
    levels: tuple[str, ...] = ()  # of drop_plugins | batch_of_one | small_model
    small_model: str = TARGET  # where it is found


class Order(StrEnum):
    """Who goes next within a tier."""

    FAIR = "fair"  # virtual token counters (VTC)
    EDF = "edf"  # fair, but the earliest due first within `deficit`
    LOCALITY = "locality"  # fair, but the longest prefix held first within `deficit`
    TURNS = "turns"  # tenants in turn, a request each, however large
    FCFS = "fcfs"  # arrival; with `tiers_matter: false` across all tiers


class RoutingRule(StrEnum):
    """How a replica is chosen."""

    LOAD = "load"  # predicted work, prefix affinity, hotspot-safe
    PREDICTED = "predicted"  # predicted TTFT and ITL, corrected by what came; slow start, outliers taken out
    LEAST_REQUESTS = "least_requests"
    ROUND_ROBIN = "round_robin"


class Hedging(Struct, frozen=True):
    """When a second replica is asked for a first token, and how much work that may add."""

    budget: Fraction = Fraction(1, 20)  # of all service dispatched; at most that
    beyond: Fraction = Fraction(19, 20)  # a first token is late beyond this quantile of what the pool shows …
    at_least: float = 0.0  # s, and after so long


class Scheduling(Struct, frozen=True):
    """The governor's rules by name; installed packages add others (`policy/extensions.py`)."""

    order: str = Order.FAIR  # an Order, or another package's
    admission: str = ""  # another package's rule, asked before everything else; "": none
    deficit: int = 16_384  # tokens of service that `edf` and `locality` may put one tenant ahead of another
    routing: str = RoutingRule.LOAD  # a RoutingRule, or another package's
    tiers_matter: bool = True  # rank, floors, lending and trickle; False: one queue for all (fcfs)
    reserve_kv: bool = True  # admission by KV footprint; False: engines queue for themselves
    strict: bool = False  # reserve max_tokens, not a quantile
    output_quantile: Fraction = Fraction(9, 10)
    oversubscription: Fraction = Fraction(0)
    preemption_risk: Fraction = Fraction(0)  # oversubscribe up to this probability of a full engine; 0: by the ratio
    bypasses: int = 16  # smaller requests that may pass a waiting larger one …
    bypass_for: float = inf  # s, and since its arrival no longer than that
    saturation_limit: Fraction = Fraction(1)  # pool saturation at which dispatch holds
    saturation: SaturationRule = SaturationRule.RESERVED
    late: Late = Late.LAST
    classes: tuple[RequestClass, ...] = ()  # what no class names has weight 1
    hedging: Hedging | None = None  # None: nobody is asked twice
    speculation: SpeculationRules | None = None  # None: drafts are not looked at
    retries: int = 2  # further attempts, only while no byte has reached the client


class Timeouts(Struct, frozen=True):
    """Seconds. Each has a reason of its own in `slo/outcome.py`."""

    connect: float = 5.0
    first_byte: float = 120.0
    idle: float = 60.0
    total: float = 1800.0
    request: float = 60.0  # for a client to send its request whole
    keep_alive: float = 75.0  # an idle client connection
    client_stall: float = 120.0  # a client that takes no bytes
    drain: float = 30.0  # in-flight requests after SIGTERM


class GatewayRules(Struct, frozen=True):
    """Limits and habits of the HTTP side."""

    max_body: int = 32 * 1024 * 1024  # bytes
    max_headers: int = 64 * 1024  # bytes
    max_connections: int = 10_000
    stream_buffer: int = 256 * 1024  # bytes held for one slow client before the engine is paused
    cors_origins: tuple[str, ...] = ()
    probe_every: float = 1.0  # s between replica reports
    timeouts: Timeouts = Timeouts()
    hide_engine_headers: bool = False
    mark_hop: bool = False  # sign X-Plimsoll-Hop for a gateway behind this one


class StorageRules(Struct, frozen=True):
    """What becomes of the log with time."""

    archive_after: float | None = None  # s after which a projected segment is packed; None: never
    states_keep: float = 30 * 86_400.0  # s for which what replicas reported is kept


class Policy(Struct, frozen=True):
    """The policy document, read and checked. `version` is a digest of its text."""

    service: Service = Service()
    tiers: tuple[Tier, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    pools: tuple[Pool, ...] = ()
    budget: BudgetRules = BudgetRules()
    alerts: AlertRules = AlertRules()
    degradation: Degradation = Degradation()
    scheduling: Scheduling = Scheduling()
    gateway: GatewayRules = GatewayRules()
    storage: StorageRules = StorageRules()
    plugins: tuple[Plugin, ...] = ()  # asked in this order before a request is admitted
    version: str = ""

    def tier(self, name: str) -> Tier:
        """The tier of that name; KeyError where there is none."""
        return {tier.name: tier for tier in self.tiers}[name]

    def tenant(self, name: str) -> Tenant:
        """The tenant of that name; KeyError where there is none."""
        for tenant in self.tenants:
            if tenant.name == name:
                return tenant
        raise KeyError(name)
