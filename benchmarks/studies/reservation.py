"""Reserving KV against not: `python -m benchmarks.studies.reservation [--seeds N]`.

Long answers that fill the KV, under one order (FCFS) and one routing (least requests), so that nothing but the
reservation differs: with it, oversubscribed by a ratio or by a stated probability, with it in strict mode (all of
max_tokens), and without, where engines take what they get and preempt what no longer fits, as vLLM does: the last one
in, its KV thrown away and its tokens computed anew. For ten minutes load is light, so that everybody has learnt how
long answers are; what comes after that is counted. Nobody's patience ends: all are answered.
"""

from fractions import Fraction
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.studies.command import Command, command
from benchmarks.studies.run import Figures, run, shown
from benchmarks.studies.service import MOONCAKE, REPLICAS, SHARES, TIERS, policy, share_of
from plimsoll.policy.policy import Order, RoutingRule, Scheduling
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

OUTPUT: Final = Lengths(900.0, 0.7, 4000)
PROMPTS: Final = {"3k": Lengths(3000.0, 0.6, 16_000), "9k": Lengths(9000.0, 0.6, 48_000)}
RATES: Final = {"3k": (1.5, 1.75, 2.0, 2.5), "9k": (0.7,)}  # a second and replica
LIGHT, LIGHT_LASTS = 0.5, 600.0  # of these, before
PLAIN = Scheduling(
    order=Order.FCFS, routing=RoutingRule.LEAST_REQUESTS, tiers_matter=False, reserve_kv=False, bypasses=0
)
FIGURES: Final = {
    "TTFT P50": "ttft_p50",
    "P99": "ttft_p99",
    "TPOT P99": "tpot_p99",
    "longest gap P99": "stall_p99",
    "E2E P50": "e2e_p50",
    "P99 ": "e2e_p99",
}
RULES: Final[dict[str, dict[str, Any]]] = {
    "none": {"reserve_kv": False},
    "quantile": {"reserve_kv": True},
    "quantile + 20 %": {"reserve_kv": True, "oversubscription": Fraction(1, 5)},
    "probability 1 %": {"reserve_kv": True, "preemption_risk": Fraction(1, 100)},
    "strict": {"reserve_kv": True, "strict": True},
}


def workload(prompts: str, rate: float, duration: float) -> Workload:
    """Everybody asks alike: so many requests a second and replica in all, after a light beginning."""
    names = [*TIERS["gold"], *TIERS["silver"], "bronze-1", "bronze-2", "noisy"]
    whole = sum(SHARES.values())
    tenants = []
    for name in names:
        own = rate * REPLICAS * share_of(name) / whole
        first = TenantProfile(name, LIGHT * own, prompt=PROMPTS[prompts], output=OUTPUT, max_output=4000)
        tenants.append(replace(first, changes=((LIGHT_LASTS, own),)))
    return Workload(tuple(tenants), LIGHT_LASTS + duration, "m")


def _run(asked: Command, name: str, prompts: str, rate: float, seed: int) -> Figures:
    patient = tuple(replace(tier, queue_timeout=3600.0, queue_limit=10**6) for tier in policy(MOONCAKE).tiers)
    promises = replace(policy(MOONCAKE), scheduling=replace(PLAIN, **RULES[name]), tiers=patient)
    end = LIGHT_LASTS + asked.duration
    return asked.kept.get(
        f"reservation/{name}/{prompts}/{rate}/{asked.duration:g}/{seed}",
        lambda: run(promises, workload(prompts, rate, asked.duration), seed, window=(LIGHT_LASTS, end)),
    )


def _row(asked: Command, name: str, prompts: str, rate: float) -> None:
    """One rule at one rate, and how each figure stands to that without reservations, seed by seed."""
    runs = [_run(asked, name, prompts, rate, seed) for seed in asked.seeds]
    none = [_run(asked, "none", prompts, rate, seed) for seed in asked.seeds]
    told = [
        f"{figure} {shown([getattr(f.all, key) for f in runs], ' s')} ({_change(runs, none, key)})"
        for figure, key in FIGURES.items()
    ]
    preempted = shown([1000.0 * found.preemptions / found.all.num for found in runs])
    tokens = shown([100.0 * (a.tokens / b.tokens - 1.0) for a, b in zip(runs, none, strict=True)], " %")
    print(
        f"{prompts} {rate} a replica/s, {name:16} {', '.join(told)}; {preempted} preemptions in 1000 requests,"
        f" {shown([f.tokens / 1000 for f in runs], 'k')} tokens/s ({tokens}); {min(f.all.num for f in runs)}+"
    )


def _change(runs: list[Figures], none: list[Figures], key: str) -> str:
    pairs = [(getattr(a.all, key), getattr(b.all, key)) for a, b in zip(runs, none, strict=True)]
    return shown([None if a is None or not b else 100.0 * (a / b - 1.0) for a, b in pairs], " %")


def main() -> None:
    asked = command(__doc__, "reservation", duration=600.0)
    asked.head("times by reservation (change against none), answers of 900 tokens in the median")
    for prompts, rates in RATES.items():
        for rate in rates:
            for name in RULES:
                _row(asked, name, prompts, rate)
    asked.foot()


if __name__ == "__main__":
    main()
