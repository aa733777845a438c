"""Who is judged: Plimsoll's rules and what they are measured against, all in one harness, each as an own policy.

Each arm has a published setting, which comes first, and three neighbours of it: the tuning budget, the same for all
(`python -m benchmarks.studies.tuning`; it uses seeds of its own). Sources: VTC (https://arxiv.org/abs/2401.00588); the
flow control of llm-d's router (llm-d.ai/docs/architecture/core/router/epp/flow-control: strict bands, tenants in turn,
a gate on reported queues of 5 and KV of 0.8); the priority scheduler of SMG (lightseekorg/smg,
docs/concepts/reliability/priority-scheduling.md: slots of the fleet, idle reservations of higher classes held back,
FIFO in a class, starved ones promoted, which stands here as trickle). Preemption of SMG is left out: its handlers do
not honour it yet.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.policy.policy import Order, Policy, RoutingRule, Scheduling
from plimsoll.policy.presets import PRESETS
from plimsoll.policy.schedulingrules import Late, SaturationRule


class Arm(Struct, frozen=True):
    """A rival: its settings, the published one first, and how a setting is put into the promises."""

    name: str
    settings: tuple[float, ...]
    tells: str  # what a setting is
    put: Callable[[Policy, float], Policy]


def _capped(rules: Scheduling, *, floors: bool) -> Callable[[Policy, float], Policy]:
    """So many requests a replica at most, the others wait here; floors are slots, and idle ones are lent to nobody."""

    def put(policy: Policy, slots: float) -> Policy:
        pools = tuple(replace(pool, max_concurrency=int(slots)) for pool in policy.pools)
        tiers = tuple(
            replace(tier, wait=0.0) if floors else replace(tier, share=Fraction(0), trickle=Fraction(0))
            for tier in policy.tiers
        )
        return replace(policy, pools=pools, tiers=tiers, scheduling=rules)

    return put


def _plain(name: str) -> Callable[[Policy, float], Policy]:
    """A preset; a setting of 0 leaves all waiting to the engines, another is the cap of a replica."""

    def put(policy: Policy, slots: float) -> Policy:
        capped = replace(policy, scheduling=PRESETS[name])
        if not slots:
            return capped
        return replace(capped, pools=tuple(replace(p, max_concurrency=int(slots)) for p in capped.pools))

    return put


def _vtc(routing: RoutingRule) -> Callable[[Policy, float], Policy]:
    """Turns by counters, and KV reserved as its engine does; how requests find a replica the paper does not say."""

    def put(policy: Policy, oversubscription: float) -> Policy:
        limit = Fraction(oversubscription).limit_denominator(100)
        return replace(policy, scheduling=replace(PRESETS["vtc"], routing=routing, oversubscription=limit))

    return put


def _llmd(policy: Policy, limit: float) -> Policy:
    rules = Scheduling(
        order=Order.TURNS,
        routing=RoutingRule.LEAST_REQUESTS,
        reserve_kv=False,
        late=Late.IN_TURN,
        saturation=SaturationRule.REPORTED,
        saturation_limit=Fraction(limit).limit_denominator(100),
    )
    tiers = tuple(replace(tier, share=Fraction(0), trickle=Fraction(0)) for tier in policy.tiers)
    gateway = replace(policy.gateway, probe_every=0.2)  # its reports are fresher than ours
    return replace(policy, tiers=tiers, scheduling=rules, gateway=gateway)


def _plimsoll(policy: Policy, wait: float) -> Policy:
    """The default rules; a setting is for how many seconds higher tiers may have to wait for what they lent."""
    tiers = tuple(replace(tier, wait=wait) if tier.rank < 2 else tier for tier in policy.tiers)
    return replace(policy, tiers=tiers)


_STRICT: Final = Scheduling(order=Order.FCFS, routing=RoutingRule.LEAST_REQUESTS, reserve_kv=False)
PLIMSOLL: Final = Arm("plimsoll", (0.05, 0.25, 1.0, 4.0), "s of `wait`", _plimsoll)
ARMS: Final = (
    PLIMSOLL,
    Arm("fcfs, least requests", (0, 256, 128, 64), "requests a replica", _plain("least_requests")),
    Arm("round robin", (0, 256, 128, 64), "requests a replica", _plain("fcfs")),
    Arm("strict priority", (256, 128, 64, 32), "requests a replica", _capped(_STRICT, floors=False)),
    Arm("VTC alone", (0.0, 0.1, 0.25, 0.5), "oversubscription", _vtc(RoutingRule.LEAST_REQUESTS)),
    Arm("llm-d-like", (1.0, 0.5, 0.75, 1.25), "saturation", _llmd),
    Arm("SMG-like", (256, 128, 64, 32), "requests a replica", _capped(_STRICT, floors=True)),
)
WITHOUT_TIERS: Final = Arm("VTC, our routing", (0.0, 0.1, 0.25, 0.5), "oversubscription", _vtc(RoutingRule.LOAD))
"""VTC's turns with our routing by tokens: no rival, since half of it is ours, but it says which half does what."""
