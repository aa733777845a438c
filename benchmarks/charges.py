"""Are breaches charged to whom they belong? `python -m benchmarks.charges [SEEDS]`.

Each seed is simulated once as it is on an ordinary day and once with each fault: upstream slower by several factors,
our engines slower by several, a crowd of long prompts of several sizes, or two at once. Every breach of an objective
whose clock starts at the user was charged at its end, with the medians that the gateway had by then, fault included.
It is held against DESIGN's rule with the true medians: those of the same seed without the fault.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf
from statistics import median
from typing import Final, NamedTuple

import msgspec

from plimsoll.engine import profiles
from plimsoll.engine.steptime import StepTime, unloaded_tpot, unloaded_ttft
from plimsoll.policy.document import parse
from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.policy.policy import Policy, UpstreamTrust
from plimsoll.requestlog.record import Record
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.simulation import EPOCH, Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.slo.intervals import clopper_pearson
from plimsoll.slo.verdict import Charge

PROFILE: Final = "h100-llama70b-tp4"


def trusting(trust: UpstreamTrust) -> Policy:
    """The policy, believing the upstream times of whoever that is."""
    return msgspec.structs.replace(_BASE, service=msgspec.structs.replace(_BASE.service, upstream_time=trust))


_BASE: Final = parse(
    f"""
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    objectives:
      - {{sli: ttft, below: 2s, from: user, target: 99%}}
      - {{sli: e2e, below: 10s, from: user, target: 99%}}
tenants:
  - {{name: finder, tier: gold}}
  - {{name: maker, tier: gold}}
  - {{name: plain, tier: gold}}
  - {{name: crowd, tier: gold}}
pools:
  - {{name: chat, model: m, engine: vllm, profile: {PROFILE}, replicas: ["http://r1", "http://r2"]}}
""",
    "charges",
)
MEASURED: Final = trusting(UpstreamTrust.MEASURED)
DURATION: Final = 1500.0
FAULT: Final = 1140.0, 1260.0
"""s: begins when every common class of requests has its hundred, and is short as against what went before."""
_KNOWN: Final = {PROFILE: profiles.load(PROFILE)}


class Fault(NamedTuple):
    """What goes wrong within `FAULT`."""

    name: str
    upstream: float = 1.0  # factor on upstream's times
    pace: float = 1.0  # factor on the time of our engines' steps
    crowd: float = 0.0  # requests a second, of long prompts, that come on top


FAULTS: Final = (
    Fault("upstream x 2", upstream=2.0),
    Fault("upstream x 4", upstream=4.0),
    Fault("upstream x 20", upstream=20.0),
    Fault("engines x 2", pace=2.0),
    Fault("engines x 4", pace=4.0),
    Fault("engines x 10", pace=10.0),
    Fault("crowd of 3/s", crowd=3.0),
    Fault("crowd of 12/s", crowd=12.0),
    Fault("upstream x 3, engines x 3", upstream=3.0, pace=3.0),
    Fault("upstream x 10, crowd of 6/s", upstream=10.0, crowd=6.0),
)

NONE: Final = Fault("none")

Usual = dict[tuple[int, bool], tuple[float, float]]
"""(TTFT, TPOT) in s by prompt-length class and cache hit: medians over the day without the fault."""


class Count(NamedTuple):
    """Breaches, and those charged as the rule with true medians says."""

    num: int
    num_agreed: int
    charges: dict[str, int]


def traffic(seed: int, fault: Fault) -> Iterator[Arrival]:
    """The same for the same seed but for the fault."""
    size = {"prompt": Lengths(900, 0.5, 6000), "output": Lengths(120, 0.6, 800)}
    tenants = [
        TenantProfile("finder", 2.0, cause="rag", upstream=Lengths(500, 0.5, 20_000), **size),  # type: ignore[arg-type]
        TenantProfile("maker", 1.5, cause="tool", upstream=Lengths(1200, 0.4, 60_000), **size),  # type: ignore[arg-type]
        TenantProfile("plain", 2.5, **size),  # type: ignore[arg-type]
    ]
    begin, end = FAULT
    if fault.crowd:
        long = Lengths(12_000, 0.1, 16_000)  # a class of prompts of its own, so that it is in nobody else's median
        tenants.append(TenantProfile("crowd", fault.crowd, prompt=long, output=Lengths(100), starts=begin, ends=end))
    for arrival in Workload(tuple(tenants), DURATION, "m").arrivals(seed):
        if begin <= arrival.at < end and arrival.upstream_time is not None:
            yield msgspec.structs.replace(arrival, upstream_time=arrival.upstream_time * fault.upstream)
        else:
            yield arrival


def run(seed: int, fault: Fault = NONE, policy: Policy = MEASURED, claimed: float = 1.0) -> list[Record]:
    """The rows of one run, without those of the crowd; clients say `claimed` times their upstream time."""
    rows: list[Record] = []
    simulation = Simulation(
        policy, _KNOWN, _saying(traffic(seed, fault), claimed), lambda settle: rows.append(settle.record)
    )
    simulation.run(EPOCH + FAULT[0])
    usual = []
    for number, replica in enumerate(simulation.fleet.replicas):
        factor = fault.pace * replica.profile.host_factor
        steps = StepTime(msgspec.structs.replace(replica.profile, host_factor=factor))
        usual.append(simulation.fleet.retime(number, steps))
    simulation.run(EPOCH + FAULT[1])
    for number, steps in enumerate(usual):
        simulation.fleet.retime(number, steps)
    simulation.run()
    return [row for row in rows if row.tenant != "crowd"]


def _saying(arrivals: Iterator[Arrival], claimed: float) -> Iterator[Arrival]:
    for arrival in arrivals:
        told = None if arrival.upstream_time is None else arrival.upstream_time * claimed
        yield arrival if claimed == 1.0 else msgspec.structs.replace(arrival, upstream_time=told)


def usual_of(rows: Iterable[Record]) -> tuple[Usual, dict[str, float]]:
    """True medians: ours by class, upstream's by cause; by the profile where a class has fewer than a hundred."""
    ttfts: dict[tuple[int, bool], list[float]] = {}
    tpots: dict[tuple[int, bool], list[float]] = {}
    upstream: dict[str, list[float]] = {}
    for row in rows:
        if row.ttft is not None and row.tpot is not None:
            ttfts.setdefault(_class(row), []).append(row.ttft)
            tpots.setdefault(_class(row), []).append(row.tpot)
        if row.upstream_time is not None:
            upstream.setdefault(row.cause, []).append(row.upstream_time)
    usual = {key: (median(ttfts[key]), median(tpots[key])) for key in ttfts if len(ttfts[key]) >= 100}
    return usual, {cause: median(times) for cause, times in upstream.items() if len(times) >= 100}


def due(objective: Objective, row: Record, usual: Usual, upstream: dict[str, float]) -> Charge:
    """DESIGN's rule, word by word."""
    u, v = row.upstream_time or 0.0, upstream.get(row.cause, 0.0)
    profile = _KNOWN[PROFILE]
    ttft, tpot = usual.get(
        _class(row),
        (unloaded_ttft(profile, row.prompt_tokens, row.cached_tokens or 0), unloaded_tpot(profile, row.prompt_tokens)),
    )
    if objective.sli is Sli.TTFT:
        b, o = ttft, inf if row.ttft is None else row.ttft
    else:
        b, o = ttft + max(0, row.output_tokens - 1) * tpot, inf if row.e2e is None else row.e2e
    if v + b > objective.below:
        return Charge.INFEASIBLE
    if u + b <= objective.below < v + o:
        return Charge.OURS
    if v + o <= objective.below < u + b:
        return Charge.UPSTREAM
    return Charge.JOINT


def compare(faulty: Iterable[Record], ordinary: Iterable[Record]) -> Count:
    """Every breach of the run with the fault."""
    usual, upstream = usual_of(ordinary)
    objectives = {each.name: each for each in MEASURED.tiers[0].objectives if each.origin is Origin.USER}
    num = agreed = 0
    charges: dict[str, int] = {}
    for row in faulty:
        for verdict in row.verdicts:
            if verdict.charge is not None and verdict.objective in objectives:
                num += 1
                charges[verdict.charge.value] = charges.get(verdict.charge.value, 0) + 1
                agreed += verdict.charge is due(objectives[verdict.objective], row, usual, upstream)
    return Count(num, agreed, charges)


def _class(row: Record) -> tuple[int, bool]:
    return row.prompt_tokens.bit_length(), bool(row.cached_tokens)


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    began = time.process_time()
    ordinary = {seed: run(seed) for seed in seeds}
    total = total_agreed = 0
    for fault in FAULTS:
        counts = [compare(run(seed, fault), ordinary[seed]) for seed in seeds]
        num, agreed = sum(each.num for each in counts), sum(each.num_agreed for each in counts)
        charges = Counter[str]()
        for each in counts:
            charges.update(each.charges)
        told = ", ".join(f"{name} {charges[name]}" for name in sorted(charges))
        print(f"{fault.name:28} {num:6} breaches, {agreed / max(num, 1):7.2%} as with true medians; {told}", flush=True)
        total, total_agreed = total + num, total_agreed + agreed
    low, high = clopper_pearson(total_agreed, total)
    agreed_text = f"{total_agreed / total:7.2%} ({low:.2%} to {high:.2%})"
    print(f"{'all':28} {total:6} breaches, {agreed_text}; {time.process_time() - began:.0f} CPU s")


if __name__ == "__main__":
    main()
