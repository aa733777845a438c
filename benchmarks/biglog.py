"""A large log to a full tail report: generated, gathered by `plimsoll tails`, with seconds, CPU seconds and memory.

`python -m benchmarks.biglog [MILLIONS] [FOLDER] [--itl]`. The log has 8 tenants in 3 tiers, three verdicts a
row, cut-off waits, queues; `--itl` adds token gaps of every request (24 buckets a row). The report is made in a process
of its own; CPU seconds say what it costs on a machine that does other things too.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plimsoll.policy import document
from plimsoll.storage.columns import SCHEMA
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.logfiles import file_name
from plimsoll.storage.segment import new_header, segment_name

GROUP = 1_000_000
FILE = 10_000_000
TENANTS = ("acme", "globex", "initech", "umbrella", "hooli", "stark", "wayne", "wonka")
TIERS = ("gold", "silver", "bronze")
POLICY = """plimsoll: 1
tiers:
  - {name: gold, rank: 0, objectives: [{sli: ttft, below: 2s, target: 99%}, {sli: itl, below: 100ms, target: 99%}]}
  - {name: silver, rank: 1, objectives: [{sli: ttft, below: 4s, target: 99%}, {sli: itl, below: 100ms, target: 99%}]}
  - {name: bronze, rank: 2, objectives: [{sli: ttft, below: 8s, target: 99%}, {sli: itl, below: 100ms, target: 99%}]}
tenants:
"""


def main() -> None:
    arguments = [each for each in sys.argv[1:] if not each.startswith("--")]
    if "--report" in sys.argv:
        _report(Path(arguments[0]))
        return
    num = int(float(arguments[0]) * 1e6) if arguments else 100_000_000
    folder = Path(arguments[1]) if len(arguments) > 1 else Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="plimsoll-biglog-", dir=folder))
    try:
        began = time.perf_counter()
        generate(root, num, itl="--itl" in sys.argv)
        size = sum(path.stat().st_size for path in root.rglob("*.parquet"))
        print(f"{num:,} rows generated in {time.perf_counter() - began:.0f} s, {size / 2**30:.2f} GiB", flush=True)
        command = [sys.executable, "-m", "benchmarks.biglog", "--report", str(root)]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        rate = num / told["wall"] / 1e6
        print(f"tail report by tenant and tier: {told['wall']:.1f} s ({told['cpu']:.1f} CPU s), {rate:.2f} M rows/s")
        print(
            f"memory: {told['peak'] / 2**30:.2f} GiB at the most; {told['num']:,} requests in {told['groups']} groups"
        )
        cpu = told["cpu"] / num * 1e8
        print(f"100 M rows at this rate: {100 / rate:.0f} s; {cpu:.0f} CPU s, {cpu / 2:.0f} s where two cores are free")
    finally:
        shutil.rmtree(root)


def _report(root: Path) -> None:
    from plimsoll.cli.tails import BY, make

    began, cpu = time.perf_counter(), time.process_time()
    found, _ = make(root, BY, None, since=None, until=None, tenant=None)
    print(json.dumps({
        "wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "num": found.num,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "groups": len(found.groups),
    }))  # fmt: skip


def generate(root: Path, num: int, *, itl: bool) -> None:
    """A data directory of so many rows, over 30 days."""
    paths = DataDirectory(root)
    paths.create()
    policy = (
        POLICY
        + "".join(f"  - {{name: {name}, tier: {TIERS[i % 3]}}}\n" for i, name in enumerate(TENANTS))
        + "pools: []\n"
    )
    paths.policy.write_text(policy)
    version = document.parse(policy).version
    random = np.random.default_rng(7)
    for begin in range(0, num, FILE):
        end = min(num, begin + FILE)
        with pq.ParquetWriter(
            paths.requests / file_name(begin, end), SCHEMA, compression="zstd", compression_level=1
        ) as writer:
            for start in range(begin, end, GROUP):
                writer.write_table(_table(random, start, min(end, start + GROUP), num, version, itl=itl))
    (paths.journal / segment_name(num)).write_bytes(new_header(0, num, 0.0).to_bytes())


def _table(random: np.random.Generator, start: int, end: int, num: int, version: str, *, itl: bool) -> pa.Table:
    n = end - start
    arrived = 1.79e9 + (start + np.sort(random.random(n)) * n) * (30 * 86_400 / num)
    tenant = random.integers(0, len(TENANTS), n)
    queued = random.exponential(0.05, n)
    ttft = queued + np.exp(random.normal(-1.5, 0.7, n))
    output = random.geometric(1 / 180, n)
    tpot = np.exp(random.normal(-3.6, 0.2, n))
    left = random.random(n) < 0.004
    e2e = ttft + tpot * (output - 1)
    finished = np.where(left, arrived + ttft * 0.5, arrived + e2e)
    bad = ttft > 2.0
    values: dict[str, Any] = {
        "request_id": np.arange(start, end),
        "tenant": _texts(TENANTS, tenant),
        "tier": _texts(TIERS, tenant % 3),
        "tier_served": _texts(TIERS, tenant % 3),
        "model": _texts(["m"], np.zeros(n, int)),
        "pool": _texts(["chat"], np.zeros(n, int)),
        "replica": _texts([f"http://r{i}" for i in range(8)], random.integers(0, 8, n)),
        "cause": _texts(["agent", "chat", "rag"], random.integers(0, 3, n)),
        "streaming": np.ones(n, bool),
        "arrived_at": arrived,
        "dispatched_at": arrived + queued,
        "first_token_at": pa.array(arrived + ttft, mask=left),
        "finished_at": finished,
        "queued_for": queued,
        "ttft": pa.array(ttft, mask=left),
        "tpot": pa.array(tpot, mask=left),
        "e2e": pa.array(e2e, mask=left),
        "prompt_tokens": random.geometric(1 / 900, n),
        "output_tokens": np.where(left, 0, output),
        "outcome": _texts(["completed", "aborted"], left.astype(int)),
        "reason": _texts(["done", "client_left"], left.astype(int)),
        "client_stall": np.zeros(n),
        "attempts": np.ones(n, int),
        "policy_version": _texts([version], np.zeros(n, int)),
        "verdicts": _verdicts(n, bad),
        "charge": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n), pa.int32(), mask=~bad), pa.array(["ours"])),
        "log_offset": np.arange(start + 1, end + 1),
    }
    if itl:
        values["itl_sketches"] = _sketches(random, n)
    columns = [_column(field, values.get(field.name), n) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _column(field: pa.Field, value: Any, n: int) -> pa.Array:
    if value is None:
        return pa.nulls(n, field.type)
    if isinstance(value, pa.Array):
        return value if value.type == field.type else value.cast(field.type)
    return pa.array(value, field.type)


def _texts(names: Any, codes: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(list(names)))


def _verdicts(n: int, bad: Any) -> pa.Array:
    kind = SCHEMA.field("verdicts").type.value_type
    worse = np.zeros(3 * n, np.int64)
    worse[::3] = bad
    objective = pa.DictionaryArray.from_arrays(
        pa.array(np.tile(np.arange(3, dtype=np.int32), n)), pa.array(["ttft", "itl", "availability"])
    )
    judgement = pa.DictionaryArray.from_arrays(pa.array(worse, pa.int32()), pa.array(["good", "bad"]))
    charge = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3 * n), pa.int32(), mask=worse == 0), pa.array(["ours"]))
    parts = [
        objective.cast(pa.string()),
        judgement.cast(pa.string()),
        pa.array(1 - worse),
        pa.array(worse),
        charge.cast(pa.string()),
    ]
    items = pa.StructArray.from_arrays(parts, fields=[kind.field(i) for i in range(kind.num_fields)])
    return pa.ListArray.from_arrays(pa.array(np.arange(0, 3 * n + 1, 3), pa.int32()), items)


def _sketches(random: np.random.Generator, n: int) -> pa.Array:
    kind = SCHEMA.field("itl_sketches").type.value_type
    sizes = np.tile([16, 8, 0], n)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    total = int(ends[-1])
    place = np.arange(total) - np.repeat(ends[:-1], sizes)
    keys = place - 180 + np.repeat(random.integers(0, 30, 3 * n), sizes)
    buckets = pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(keys, pa.int32()), pa.array(random.integers(1, 9, total))
    )
    items = pa.StructArray.from_arrays(
        [pa.array(np.zeros(3 * n, np.int64)), buckets], fields=[kind.field(i) for i in range(kind.num_fields)]
    )
    return pa.ListArray.from_arrays(pa.array(np.arange(0, 3 * n + 1, 3), pa.int32()), items)


if __name__ == "__main__":
    main()
