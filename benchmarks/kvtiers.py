"""What KV tiers do when the hit ratio falls from 70 to 40 % within five minutes: `python -m benchmarks.kvtiers`.

The published claim: with segmented eviction and prewarming the P99 jitter stays within 200 ms. Here: one replica of an
8B model, prompts that begin with one of 400 documents (4,096 tokens, popularity falling as 1/rank^0.7) and a question,
beside prompts that nobody repeats. Documents are 81 % of the requests for 20 minutes, then fall to 49 % in a straight
line within five and stay there for 20 (with segmented eviction about 70 and 40 % of the prompt tokens are found).
Jitter: the worst one-minute P99 of TTFT from the fall on, less the P99 of the ten minutes before it. All policies see
the same requests; a few seeds give the range. The last row is the bound of all prewarming: every document that was ever
computed is in memory that holds everything and reads in no time.
"""

import sys
from dataclasses import dataclass
from math import inf

import numpy as np
from msgspec.structs import replace

from plimsoll.engine import profiles
from plimsoll.engine.features import Eviction, KvTier, KvTiers
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import FIRST_TOKEN, Job
from plimsoll.sim.randomness import stream

PROFILE = "rtxpro6000-llama8b"
BYTES_PER_TOKEN = 131_072.0  # Llama-3.1-8B bf16: 32 layers x 8 heads x 128 x 2 x 2 B
SOURCE = "DRAM 20 GB/s, 1 us; NVMe gen4 7 / 5 GB/s, 80 us: device classes of inference-sim @ f90a1e3a (Apache-2.0)"
DRAM = KvTier("dram", 100e9, 20e9, 20e9, 1e-6)
NVME = KvTier("nvme", 200e9, 7e9, 5e9, 80e-6)
NUM_DOCUMENTS, HASHES, HASH_TOKENS = 400, 8, 512
FALLS_AT, FELL_AT, ENDS_AT = 1200.0, 1500.0, 2700.0  # s
SHARE_BEFORE, SHARE_AFTER = 0.81, 0.49
CLAIM = 0.2  # s
PERCENTILE, MINUTE = 99, 60.0


@dataclass
class Found:
    """Of one run: hit ratios and P99s of TTFT in s, before the fall and after it."""

    hits_before: float
    hits_after: float
    p99_before: float
    worst_minute: float

    @property
    def jitter(self) -> float:
        """By how much the worst minute is longer."""
        return self.worst_minute - self.p99_before


FIELDS = tuple(Found.__dataclass_fields__)


def tiers(eviction: Eviction, prewarm_every: float) -> KvTiers:
    return KvTiers(SOURCE, BYTES_PER_TOKEN, (DRAM, NVME), eviction, prewarm_every=prewarm_every)


POLICIES: dict[str, KvTiers | None] = {
    "HBM alone": None,
    "LRU": tiers(Eviction.LRU, 0.0),
    "segmented": tiers(Eviction.SEGMENTED, 0.0),
    "segmented, prewarming": tiers(Eviction.SEGMENTED, 1.0),
    "all at hand (bound)": KvTiers(SOURCE, BYTES_PER_TOKEN, (KvTier("all", 1e18, 1e18, 1e18),)),
}


def jobs(rate: float, seed: int) -> list[tuple[float, Job]]:
    """The requests, with their instants."""
    draws = stream(seed, "kvtiers")
    popularity = np.arange(1, NUM_DOCUMENTS + 1) ** -0.7
    popularity /= popularity.sum()
    found: list[tuple[float, Job]] = []
    at = 0.0
    while (at := at + float(draws.exponential(1 / rate))) < ENDS_AT:
        fallen = min(1.0, max(0.0, (at - FALLS_AT) / (FELL_AT - FALLS_AT)))
        known = draws.random() < SHARE_BEFORE + fallen * (SHARE_AFTER - SHARE_BEFORE)
        number = int(draws.choice(NUM_DOCUMENTS, p=popularity)) if known else NUM_DOCUMENTS + len(found)
        hashes = tuple(number * HASHES + index for index in range(HASHES))
        prompt, output = HASHES * HASH_TOKENS + int(draws.integers(50, 350)), int(draws.integers(50, 150))
        found.append((at, Job(len(found) + 1, prompt, output, hashes, HASH_TOKENS)))
    return found


def run(policy: KvTiers | None, rate: float, seed: int) -> Found:
    engine = engine_for(replace(profiles.load(PROFILE), kv_tiers=policy), "replica", 0.0)
    arrived: dict[int, float] = {}
    ttfts: list[tuple[float, float]] = []
    hits = [[0, 0], [0, 0]]  # found and asked tokens, before the fall and after it
    for at, job in [*jobs(rate, seed), (inf, None)]:
        for waited_from, first in first_tokens(engine, at):
            began = arrived[first.id]
            ttfts.append((began, waited_from - began))
            if FALLS_AT - 600 <= began < FALLS_AT or began >= FELL_AT:
                side = hits[began >= FELL_AT]
                side[0] += first.cached_tokens
                side[1] += first.prompt_tokens
        if job is not None:
            arrived[job.id] = at
            engine.submit(at, job)
    before = [ttft for at, ttft in ttfts if FALLS_AT - 600 <= at < FALLS_AT]
    minutes: dict[int, list[float]] = {}
    for at, ttft in ttfts:
        if at >= FALLS_AT:
            minutes.setdefault(int(at // MINUTE), []).append(ttft)
    worst = max(float(np.percentile(minute, PERCENTILE)) for minute in minutes.values())
    ratios = [found / asked for found, asked in hits]
    return Found(ratios[0], ratios[1], float(np.percentile(before, PERCENTILE)), worst)


def first_tokens(engine: Engine, until: float) -> list[tuple[float, Job]]:
    """First tokens up to an instant."""
    found = []
    while (at := engine.next_at()) <= until and at < inf:
        found += [(output.at, output.job) for output in engine.advance(at) if output.kind == FIRST_TOKEN]
    if until < inf:
        engine.advance(until)
    return found


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for rate in (0.5, 1.5, 2.5):
        print(f"{rate} requests/s")
        print(f"  {'policy':22} {'hits before':>11} {'after':>6} {'P99 before':>11} {'worst minute':>12} {'jitter':>8}")
        for name, policy in POLICIES.items():
            print(f"  {name:22} {told([run(policy, rate, seed) for seed in range(1, seeds + 1)])}", flush=True)


def told(found: list[Found]) -> str:
    """One row: means over seeds, the jitter with its range."""
    before, after, p99, worst = (float(np.mean([getattr(one, field) for one in found])) for field in FIELDS)
    jitters = sorted(1e3 * one.jitter for one in found)
    jitter = f"{np.mean(jitters):5.0f} ms ({jitters[0]:.0f} – {jitters[-1]:.0f})"
    verdict = "within" if jitters[-1] <= 1e3 * CLAIM else "beyond"
    return f"{before:>10.0%} {after:>6.0%} {1e3 * p99:>8.0f} ms {1e3 * worst:>9.0f} ms {jitter}, {verdict} 200 ms"


if __name__ == "__main__":
    main()
