"""The engine model against vLLM 0.19, request by request: `python -m benchmarks.fidelity`; needs PLIMSOLL_DATA.

With `--predict` it writes what it expects of the RTX 4090 run, whose measurements it has never seen, to
benchmarks/predictions/rtx4090.csv.
"""

import csv
import gzip
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plimsoll.engine import profiles
from plimsoll.sim.engine import Engine
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import FINISHED, Job

DENSE = {"RTXPRO6000_Llama-3.1-8B": "rtxpro6000-llama8b", "RTXPRO6000_Qwen3-32B": "rtxpro6000-qwen32b"}
MOE = {"RTXPRO6000_Qwen3-30B-A3B-Instruct-2507": "rtxpro6000-qwen30b-moe"}
WITHIN = {"e2e_mean": 0.01, "e2e_p99": 0.015, "tpot_mean": 0.01, "ttft_mean": 0.03}
"""What is asked of dense runs."""
WITHIN_MOE = {"e2e_mean": 0.03, "ttft_mean": 0.10}
UNSEEN = ("RTX4090_Llama-3.1-8B", "rtx4090-llama8b")
PREDICTION = Path(__file__).parent / "predictions" / "rtx4090.csv"


@dataclass
class Measured:
    """Seconds of one request."""

    ttft: float
    tpot: float
    e2e: float


@dataclass
class Asked:
    """One request of a recorded run."""

    name: str
    arrival: float
    prompt: int
    output: int
    blocks: tuple[int, ...]  # prefix hashes of 16 tokens
    measured: Measured | None


def folder(run: str) -> Path:
    return Path(os.environ["PLIMSOLL_DATA"]) / "llmservingsim" / "bench" / run


def recorded(run: str) -> list[Asked]:
    """The requests of a run with what was measured, where it was."""
    with gzip.open(folder(run) / "workload_prefix_blocks.jsonl.gz", "rt") as lines:
        asked = [json.loads(line) for line in lines]
    path = folder(run) / "requests.csv.gz"
    if not path.exists():
        return [_asked(f"bench-{i}", row["arrival_ns"] * 1e-9, row, row["output_toks"]) for i, row in enumerate(asked)]
    with gzip.open(path, "rt") as lines:
        rows = list(csv.DictReader(lines))
    found = []
    for row, request in zip(rows, asked, strict=True):
        item = _asked(row["request"], float(row["arrival_s"]), request, int(row["output_tokens"]))
        item.measured = Measured(float(row["ttft_s"]), float(row["tpot_s"]), float(row["e2e_s"]))
        found.append(item)
    return found


def _asked(name: str, arrival: float, request: dict[str, list[int]], output: int) -> Asked:
    prompt = int(str(request["input_toks"]))
    return Asked(name, arrival, prompt, output, tuple(request["block16_ids"][: prompt // 16]), None)


def predicted(run: list[Asked], profile: str) -> list[Measured]:
    """What the model says of each request."""
    replica = engine_for(profiles.load(profile), profile)
    found: dict[int, Job] = {}
    for number in sorted(range(len(run)), key=lambda i: run[i].arrival):
        asked = run[number]
        found.update(_finished(replica, asked.arrival))
        replica.submit(asked.arrival, Job(number + 1, asked.prompt, asked.output, asked.blocks, 16))
    found.update(_finished(replica, float("inf")))
    return [_measured(found[i + 1], run[i]) for i in range(len(run))]


def _finished(replica: Engine, until: float) -> Iterator[tuple[int, Job]]:
    while (at := replica.next_at()) <= until and at < float("inf"):
        yield from ((output.job.id, output.job) for output in replica.advance(at) if output.kind == FINISHED)
    if until < float("inf"):
        replica.advance(until)


def _measured(job: Job, asked: Asked) -> Measured:
    first, last = job.first_token_at - asked.arrival, job.last_token_at - asked.arrival
    return Measured(first, (last - first) / max(1, asked.output - 1), last)


def errors(run: str, profile: str) -> dict[str, float]:
    """Relative errors of means and P99s, and the mean absolute error of E2E by request."""
    asked = recorded(run)
    ours = predicted(asked, profile)
    theirs = [request.measured for request in asked if request.measured]
    found = {}
    for name in ("ttft", "tpot", "e2e"):
        mine = sorted(getattr(value, name) for value in ours)
        real = sorted(getattr(value, name) for value in theirs)
        found[f"{name}_mean"] = sum(mine) / sum(real) - 1
        at = -(-99 * len(real) // 100) - 1
        found[f"{name}_p99"] = mine[at] / real[at] - 1
    pairs = zip(ours, theirs, strict=True)
    found["e2e_mape"] = sum(abs(mine.e2e / real.e2e - 1) for mine, real in pairs) / len(ours)
    return found


def predict() -> None:
    run, profile = UNSEEN
    asked = recorded(run)
    with PREDICTION.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("request", "ttft_s", "tpot_s", "e2e_s"))
        for request, value in zip(asked, predicted(asked, profile), strict=True):
            writer.writerow((request.name, f"{value.ttft:.6f}", f"{value.tpot:.7f}", f"{value.e2e:.6f}"))


def main() -> None:
    if "--predict" in sys.argv:
        predict()
        return
    for run, profile in (DENSE | MOE).items():
        bounds = WITHIN if run in DENSE else WITHIN_MOE
        print(f"{run} by {profile}, host factor {profiles.load(profile).host_factor}")
        for name, error in errors(run, profile).items():
            print(f"  {name:10} {error:+7.2%}{_verdict(error, bounds.get(name))}")


def _verdict(error: float, bound: float | None) -> str:
    if bound is None:
        return ""
    return f"   asked: {bound:.1%}" + ("" if abs(error) <= bound else ", MISSED")


if __name__ == "__main__":
    main()
