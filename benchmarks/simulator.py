"""Simulated requests a CPU second: live policies in the loop, and the engine model alone.

    python -m benchmarks.simulator [--requests 60000] [--only whole,tight,mooncake,length,engine,week,parquet]
                                   [--sketches] [--json]
    python -m benchmarks.simulator --only week --week-requests 6000000

The service: eight replicas of an 8B model offered 65 % of what they can serve (measured first, one replica with all
requests waiting), three tiers with floors, four tenants, prefix cache, preemption, a report of all replicas every
second. Lengths are Azure's conversations of 2023 (`$PLIMSOLL_DATA/azure2023`; without the data log-normals like them),
the first 512 tokens of a prompt being its tenant's system prompt; or Mooncake's conversations with their block hashes.

`tight` has so few KV blocks, and so many promised beyond them, that engines preempt.
`length` is the same service with outputs four times as long, offered the same share of what it can serve then: cost
is to grow with requests, not with tokens. `week` is ten tenants with days and nights over seven days. Each part runs
in a process of its own, so that its peak memory is its own; CPU time includes drawing the workload.

Nobody looks at token gaps by length here, so they are counted against the thresholds of objectives only, as `plimsoll
headroom` does; with `--sketches` each row has its three sketches, as `plimsoll simulate` makes them.
"""

import argparse
import csv
import gc
import gzip
import io
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec
import numpy as np

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Settle
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.sim import simulation as simulation_module
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.job import FINISHED, Job
from plimsoll.sim.replica import Replica
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.tracesender import Sender
from plimsoll.sim.tracetraffic import TraceTraffic
from plimsoll.sim.workload import Workload
from plimsoll.storage import traces

PROFILE = "rtxpro6000-llama8b"
NUM_REPLICAS = 8
OFFERED = 0.65  # of saturation
SHARED = 512
WEEK = 7 * 86_400.0
DATA = os.environ.get("PLIMSOLL_DATA")
SKETCHES = "BENCHMARK_SKETCHES"  # tells the processes of the parts
TARGETS = {"whole": 50_000, "tight": 50_000, "mooncake": 50_000, "engine": 300_000}
DAY = (
    0.45,
    0.35,
    0.3,
    0.3,
    0.35,
    0.5,
    0.7,
    0.9,
    1.1,
    1.3,
    1.4,
    1.45,
    1.4,
    1.45,
    1.5,
    1.5,
    1.45,
    1.4,
    1.3,
    1.25,
    1.2,
    1.05,
    0.85,
    0.6,
)


def policy(num_replicas: int, tenants: dict[str, str], oversubscription: str = "0%") -> Policy:
    """Three tiers with floors and token objectives; tenant → tier."""
    names = ", ".join(f'"http://r{number}"' for number in range(num_replicas))
    members = ", ".join(f"{{name: {name}, tier: {tier}}}" for name, tier in tenants.items())
    return parse(
        f"""
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    share: 40%
    objectives: [{{sli: ttft, below: 1s, target: 99%}}, {{sli: itl, below: 150ms, target: 99%}}]
  - name: silver
    rank: 1
    share: 30%
    objectives: [{{sli: ttft, below: 3s, target: 98%}}, {{sli: itl, below: 250ms, target: 99%}}]
  - {{name: bronze, rank: 2, share: 10%, trickle: 5%, objectives: [{{sli: e2e, below: 60s, target: 90%}}]}}
tenants: [{members}]
scheduling: {{oversubscription: {oversubscription}}}
pools:
  - {{name: chat, model: m, engine: vllm, profile: {PROFILE}, replicas: [{names}]}}
""",
        "benchmark",
    )


# Traffic.


def azure_lengths() -> tuple[Lengths, Lengths, float]:
    """Prompt beyond the shared beginning, output, and how they go together."""
    if DATA is None:
        return Lengths(430, 0.85, 8192), Lengths(165, 0.7, 1500), 0.0
    with gzip.open(Path(DATA) / "azure2023/AzureLLMInferenceTrace_conv.csv.gz", "rt") as lines:
        rows = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(lines)]
    prompts = np.array([max(1, prompt - SHARED) for prompt, _ in rows])
    outputs = np.array([max(1, output) for _, output in rows])
    ranks = np.corrcoef(np.argsort(np.argsort(prompts)), np.argsort(np.argsort(outputs)))[0, 1]
    return _table(prompts), _table(outputs), float(ranks)


def _table(values: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Lengths:
    shares = np.linspace(0.0, 1.0, 201)
    knots = np.maximum.accumulate(np.quantile(values, shares))
    knots += np.arange(201) * 1e-6  # rising
    return Lengths(0.0, 0.0, 1 << 20, tuple(zip(shares.tolist(), knots.tolist(), strict=True)))


def azure(num: int, rate: float, names: Iterable[str], stretch: float = 1.0, **more: object) -> Workload:
    """`num` requests at `rate` a second, from tenants of equal rate; outputs `stretch` times as long."""
    prompt, output, together = azure_lengths()
    if stretch != 1.0:
        longer = tuple((share, stretch * tokens) for share, tokens in output.quantiles)
        output = Lengths(output.median * stretch, output.sigma, int(output.most * stretch), longer)
    senders = tuple(names)
    made = [
        TenantProfile(
            name,
            rate / len(senders),
            prompt=prompt,
            output=output,
            correlation=together,
            shared_tokens=SHARED,
            **more,  # type: ignore[arg-type]
        )
        for name in senders
    ]
    return Workload(tuple(made), num / rate, "m")


def mooncake(num: int, rate: float, names: Iterable[str]) -> Workload:
    """Mooncake's conversations at `rate` a second, its block hashes as they are, over and over with other texts."""
    if DATA is None:
        raise SystemExit("the mooncake part needs $PLIMSOLL_DATA")
    rows = list(traces.read(Path(DATA) / "mooncake/conversation_trace.jsonl.gz"))
    speed = rate * rows[-1].at / len(rows)
    trace = TraceTraffic("mooncake", tuple(Sender(name) for name in names), rows, speed=speed, repeats=True)
    return Workload((), num / rate, "m", (trace,))


def saturation(make: Callable[[], Iterable[Arrival]], num: int = 2500, blocks: int = 0) -> float:
    """Requests a second that one replica serves when all wait from the start; the first and last fifth left out."""
    replica = Replica(profile(blocks))
    for number, arrival in zip(range(num), make(), strict=False):
        replica.submit(0.0, Job(number, arrival.prompt_tokens, arrival.output_tokens, arrival.hashes))
    ended: list[float] = []
    while (at := replica.next_at()) < float("inf"):
        ended += [output.at for output in replica.advance(at) if output.kind == FINISHED]
    first, last = len(ended) // 5, 4 * len(ended) // 5
    return (last - first) / (ended[last] - ended[first])


def profile(blocks: int = 0) -> EngineProfile:
    """The engine, with fewer KV blocks where that is asked for."""
    known = profiles.load(PROFILE)
    return msgspec.structs.replace(known, num_blocks=blocks) if blocks else known


# Parts.


def run_service(
    workload: Workload, rules: Policy, settled: Callable[[Settle], None], blocks: int = 0, sketches: bool | None = None
) -> dict[str, float]:
    """One whole simulation and what it cost."""
    gc.collect()
    gc.freeze()
    began = time.process_time()
    sketched = bool(os.environ.get(SKETCHES)) if sketches is None else sketches
    arrivals = workload.arrivals(1)
    simulation = Simulation(rules, {PROFILE: profile(blocks)}, arrivals, settled, sketches=sketched)
    simulation.run()
    cpu = time.process_time() - began
    counts = [replica.counts() for replica in simulation.fleet.replicas]
    queries = sum(one.prefix_queries for one in counts)
    return {
        "requests": simulation.num_arrived,
        "cpu_s": cpu,
        "requests_per_cpu_s": simulation.num_arrived / cpu,
        "us_per_request": 1e6 * cpu / simulation.num_arrived,
        "prefix_hits": sum(one.prefix_hits for one in counts) / max(1, queries),
        "preemptions": sum(one.num_preemptions for one in counts),
        "steps": sum(one.num_steps for one in counts),
        "simulated_s": simulation.now - simulation.start_at,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


TENANTS = {"a": "gold", "b": "gold", "c": "silver", "d": "bronze"}


class Counted:
    """Takes rows and keeps how many completed and how many output tokens they had."""

    def __init__(self) -> None:
        self.num = 0
        self.tokens = 0

    def __call__(self, settle: Settle) -> None:
        self.num += 1
        self.tokens += settle.record.output_tokens


def service(
    num: int, make: Callable[[int, float, Iterable[str]], Workload], blocks: int = 0, over: str = "0%"
) -> dict[str, float]:
    """The service of the head of this file under one kind of traffic."""
    rate = OFFERED * NUM_REPLICAS * saturation(lambda: make(10_000, 10.0, TENANTS).arrivals(2), blocks=blocks)
    rows = Counted()
    found = run_service(make(num, rate, TENANTS), policy(NUM_REPLICAS, TENANTS, over), rows, blocks)
    return {"offered_per_replica": rate / NUM_REPLICAS, "mean_output": rows.tokens / max(1, rows.num), **found}


def whole(num: int) -> dict[str, float]:
    """Azure's lengths."""
    return service(num, azure)


def tight(num: int) -> dict[str, float]:
    """So few KV blocks, and so many reserved beyond them, that engines preempt."""
    return service(num, azure, blocks=1000, over="100%")


def of_mooncake(num: int) -> dict[str, float]:
    """Mooncake's conversations."""
    return service(num // 4, mooncake)


def length(num: int) -> dict[str, float]:
    """Outputs four times as long."""
    return service(num, lambda number, rate, names: azure(number, rate, names, 4.0))


def engine(num: int) -> dict[str, float]:
    """One replica, no governor: jobs in, ends out. Arrivals are drawn before the clock starts."""
    rate = OFFERED * saturation(lambda: azure(10_000, 10.0, TENANTS).arrivals(2))
    arrivals = list(azure(num, rate, TENANTS).arrivals(1))
    replica = Replica(profiles.load(PROFILE))
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)  # as a simulation does
    began = time.process_time()
    for number, arrival in enumerate(arrivals):
        replica.advance(arrival.at)
        replica.submit(arrival.at, Job(number, arrival.prompt_tokens, arrival.output_tokens, arrival.hashes))
    while (at := replica.next_at()) < float("inf"):
        replica.advance(at)
    cpu = time.process_time() - began
    return {
        "requests": len(arrivals),
        "cpu_s": cpu,
        "requests_per_cpu_s": len(arrivals) / cpu,
        "us_per_request": 1e6 * cpu / len(arrivals),
    }


def week(num: int) -> dict[str, float]:
    """Ten tenants with days and nights; fewer than 6 M requests: as many seconds less of the week."""
    names = {f"t{number}": ("gold", "silver", "bronze")[number % 3] for number in range(10)}
    rate = 6e6 / WEEK
    replicas = max(1, round(rate / (OFFERED * saturation(lambda: azure(10_000, 10.0, names).arrivals(2))))) + 1
    rows = Counted()
    found = run_service(azure(num, rate, names, daily=DAY), policy(replicas, names), rows)
    return {"replicas": replicas, **found}


def parquet(num: int) -> dict[str, float]:
    """What rows cost beyond being made: encoded as columns and written."""
    from plimsoll.storage import columns

    rows: list[Settle] = []
    run_service(azure(num, 40.0, TENANTS), policy(NUM_REPLICAS, TENANTS), rows.append, sketches=True)
    began = time.process_time()
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "requests.parquet"
        with pq.ParquetWriter(path, columns.SCHEMA, compression="zstd") as writer:
            for start in range(0, len(rows), 20_000):
                part = rows[start : start + 20_000]
                writer.write_table(columns.table_of(part, range(start, start + len(part))))
        size = path.stat().st_size
    cpu = time.process_time() - began
    return {
        "requests": len(rows),
        "cpu_s": cpu,
        "us_per_request": 1e6 * cpu / len(rows),
        "bytes_per_row": size / len(rows),
    }


PARTS: dict[str, Callable[[int], dict[str, float]]] = {
    "whole": whole, "tight": tight, "mooncake": of_mooncake, "length": length,
    "engine": engine, "week": week, "parquet": parquet,
}  # fmt: skip


def main() -> None:
    """Run the parts one after another and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--requests", type=int, default=60_000, help="requests a part (default 60000; mooncake a quarter)"
    )
    parser.add_argument("--week-requests", type=int, default=60_000, help="requests of the week (6000000 is the whole)")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run, by comma")
    parser.add_argument("--sketches", action="store_true", help="each row with its sketches of token gaps")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    os.environ[SKETCHES] = "1" if options.sketches else ""
    compiled = str(simulation_module.__file__).endswith(".so")
    sys.stderr.write(f"{'compiled' if compiled else 'plain source'}, Python {sys.version.split()[0]}\n")
    for name in options.only.split(","):
        num = options.week_requests if name == "week" else options.requests
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found = pool.submit(PARTS[name], num).result()
        sys.stdout.write(
            (json.dumps({"part": name, "compiled": compiled, **found}) if options.json else told(name, found)) + "\n"
        )
        sys.stdout.flush()


def told(name: str, found: dict[str, float]) -> str:
    """One line."""
    target = TARGETS.get(name)
    text = io.StringIO()
    text.write(f"{name:9}")
    if "requests_per_cpu_s" in found:
        text.write(f"{found['requests_per_cpu_s']:>10,.0f} requests a CPU s")
        text.write(f" (target {target:,})" if target else "")
    text.write(
        f"  {found['us_per_request']:.1f} µs a request, {found['requests']:,} requests in {found['cpu_s']:.1f} s"
    )
    if "prefix_hits" in found:
        text.write(
            f", hits {found['prefix_hits']:.0%}, {found['preemptions']} preemptions, {found['peak_rss_mb']:.0f} MB"
        )
    if "mean_output" in found:
        text.write(f", {found['mean_output']:.0f} output tokens, {found['offered_per_replica']:.1f} a replica and s")
    if "replicas" in found:
        text.write(f", {found['replicas']} replicas, {found['simulated_s'] / 86_400:.2f} days")
    if "bytes_per_row" in found:
        text.write(f", {found['bytes_per_row']:.0f} bytes a row")
    return text.getvalue()


if __name__ == "__main__":
    main()
