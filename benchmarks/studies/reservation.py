"""Reserving KV against not: `python -m benchmarks.studies.reservation [--seeds N]`.

Long answers that fill the KV, as a share of what the replicas serve, under one order (FCFS) and one routing (least
requests), so that nothing but the reservation differs: with it, with it in strict mode (all of max_tokens), and
without, where engines take what they get and preempt what no longer fits. Nobody's patience ends: all are answered.
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

PROMPT = Lengths(3000.0, 0.6, 16_000)
OUTPUT = Lengths(900.0, 0.7, 4000)
PLAIN = Scheduling(
    order=Order.FCFS, routing=RoutingRule.LEAST_REQUESTS, tiers_matter=False, reserve_kv=False, bypasses=0
)
RULES: Final[dict[str, dict[str, Any]]] = {
    "none": {"reserve_kv": False},
    "quantile": {"reserve_kv": True},
    "quantile + 10 %": {"reserve_kv": True, "oversubscription": Fraction(1, 10)},
    "strict": {"reserve_kv": True, "strict": True},
}


def workload(rate: float, duration: float) -> Workload:
    """Everybody asks alike: so many requests a second and replica in all."""
    names = [*TIERS["gold"], *TIERS["silver"], "bronze-1", "bronze-2", "noisy"]
    whole = sum(SHARES.values())
    tenants = [
        TenantProfile(n, rate * REPLICAS * share_of(n) / whole, prompt=PROMPT, output=OUTPUT, max_output=4000)
        for n in names
    ]
    return Workload(tuple(tenants), duration, "m")


def _run(asked: Command, name: str, changes: dict[str, Any], rate: float, seed: int) -> Figures:
    patient = tuple(replace(tier, queue_timeout=3600.0, queue_limit=10**6) for tier in policy(MOONCAKE).tiers)
    promises = replace(policy(MOONCAKE), scheduling=replace(PLAIN, **changes), tiers=patient)
    return asked.kept.get(
        f"reservation/{name}/{rate}/{asked.duration:g}/{seed}",
        lambda: run(promises, workload(rate, asked.duration), seed),
    )


def main() -> None:
    asked = command(__doc__, "reservation", duration=600.0)
    asked.head("P99 TTFT and E2E goodput by reservation; answers of 900 tokens in the median")
    for rate in (1.5, 2.0, 2.5):
        plain: list[float | None] = []
        for name, changes in RULES.items():
            runs = [_run(asked, name, changes, rate, seed) for seed in asked.seeds]
            p99 = [found.all.ttft_p99 for found in runs]
            plain = plain or p99
            change = [None if a is None or b is None else 100 * (a / b - 1) for a, b in zip(p99, plain, strict=True)]
            preempted = shown([1000.0 * found.preemptions / found.all.num for found in runs])
            print(
                f"{rate} a replica/s, {name:16} TTFT P50 {shown([f.all.ttft_p50 for f in runs], ' s')}, P99"
                f" {shown(p99, ' s')} ({shown(change, ' %')} against none), E2E P99"
                f" {shown([f.all.e2e_p99 for f in runs], ' s')}; {preempted} preemptions in 1000 requests,"
                f" {shown([f.all.refused / f.all.num * 100 for f in runs], ' %')} not sent;"
                f" {shown([f.tokens / 1000 for f in runs], 'k')} tokens/s"
            )
    asked.foot()


if __name__ == "__main__":
    main()
