"""Does a long pool whose size adapts beat one of a fixed size? `python -m benchmarks.studies.adaptivepool [--seeds N]`.

Four replicas of one model; prompts of 16k and more have a pool of their own. In the middle third of the run the share
of long prompts is much higher than before and after, so no fixed size fits throughout. Beside the fixed sizes stands
one pool for all prompts. In time is a first token within 1 s, of long prompts within 15 s.
"""

import argparse
from math import ceil
from random import Random
from typing import Final

from msgspec import Struct

from benchmarks.studies.service import KNOWN, PROFILE
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.simulation import Simulation

LIMIT: Final = 16_000
PATIENCE: Final = (1.0, 15.0)  # s for the first token of a short and of a long prompt
FEW: Final = (12.0, 0.1)  # short and long prompts a second …
MANY: Final = (3.0, 0.45)  # … and in the middle third
KINDS: Final = ("one pool", "fixed 1", "fixed 2", "fixed 3", "adaptive")


class Outcome(Struct, frozen=True):
    """What a run came to."""

    short_in_time: float  # share of the short prompts …
    long_in_time: float  # … and of the long ones
    short_p99: float  # s to the first token; a request without one waited for ever
    long_p99: float
    moves: int


def service(kind: str) -> Policy:
    """The four replicas as that kind has them."""
    urls = [f'"http://r{number}"' for number in range(4)]
    num_long = {"one pool": 0, "fixed 2": 2, "fixed 3": 3}.get(kind, 1)
    engine = f"model: m, engine: vllm, profile: {PROFILE}"
    below = ", max_prompt_tokens: 16000" if num_long else ""
    pools = [f"{{name: mixed, {engine}, replicas: [{', '.join(urls[: 4 - num_long])}]{below}}}"]
    if num_long:
        adaptive = ", adaptive: {with: mixed, min: 1, max: 3}" if kind == "adaptive" else ""
        replicas = ", ".join(urls[4 - num_long :])
        pools.append(f"{{name: long, {engine}, replicas: [{replicas}], min_prompt_tokens: 16000{adaptive}}}")
    return parse(
        "plimsoll: 1\ntiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 1s, target: 99%}]}]\n"
        f"tenants: [{{name: acme, tier: gold}}]\npools: [{', '.join(pools)}]\n"
    )


def traffic(seed: int, duration: float) -> list[Arrival]:
    """Poisson arrivals of two kinds of prompts, whose rates change at a third and two thirds."""
    dice = Random(seed)
    found = []
    for third, (short, long) in enumerate((FEW, MANY, FEW)):
        at, end = third * duration / 3.0, (third + 1) * duration / 3.0
        while (at := at + dice.expovariate(short + long)) < end:
            is_long = dice.random() * (short + long) < long
            prompt = dice.uniform(24_000, 64_000) if is_long else min(15_000.0, dice.lognormvariate(7.0, 0.8))
            output = int(dice.uniform(50, 400))
            found.append(Arrival(at=at, tenant="acme", model="m", prompt_tokens=int(prompt), output_tokens=output))
    return found


def run(kind: str, seed: int, duration: float) -> Outcome:
    """One run to its end."""
    rows: list[Record] = []
    simulation = Simulation(service(kind), KNOWN, traffic(seed, duration), lambda settle: rows.append(settle.record))
    simulation.run()
    short = [_wait(row) for row in rows if row.prompt_tokens < LIMIT]
    long = [_wait(row) for row in rows if row.prompt_tokens >= LIMIT]
    return Outcome(
        _in_time(short, PATIENCE[0]), _in_time(long, PATIENCE[1]), _p99(short), _p99(long), len(simulation.fleet.moves)
    )


def _in_time(waits: list[float], most: float) -> float:
    return sum(wait <= most for wait in waits) / len(waits)


def _wait(row: Record) -> float:
    return float("inf") if row.ttft is None else row.ttft


def _p99(waits: list[float]) -> float:
    return sorted(waits)[ceil(0.99 * len(waits)) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0 (default: %(default)s)")
    parser.add_argument("--duration", type=float, default=1200.0, help="simulated s a run (default: %(default)s)")
    asked = parser.parse_args()
    print(f"{asked.seeds} seeds of {asked.duration:g} s; by seed")
    for kind in KINDS:
        found = [run(kind, seed, asked.duration) for seed in range(asked.seeds)]
        print(f"{kind:10} short in time " + " ".join(f"{one.short_in_time:6.1%}" for one in found), end="; ")
        print("long " + " ".join(f"{one.long_in_time:6.1%}" for one in found), end="; ")
        print("P99 of short " + " ".join(f"{one.short_p99:.2f}" for one in found), end="; ")
        print("of long " + " ".join(f"{one.long_p99:.1f}" for one in found), end="; ")
        print("moves " + " ".join(str(one.moves) for one in found))


if __name__ == "__main__":
    main()
