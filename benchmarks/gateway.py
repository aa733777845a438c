"""What the gateway costs: CPU per request and per streamed event, delay, memory, beside the targets.

    PLIMSOLL_TOOLS=… python -m benchmarks.gateway [--what serve|stack] [--quick] [--ramp] [--out FILE]

Builds the mock engine and load client of $PLIMSOLL_TOOLS/gateway-bench, pins the gateway to one core and all else to
another, and runs its bench.py. `serve` is everything on; `stack` the HTTP data path alone; `raw` the least that a
Python proxy can do, a yardstick for the machine: compare runs of one sitting, in turns. CPU times want a quiet
machine: `others %` says how much of the gateway's core others took meanwhile.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

KEY = "sk-mock-1234"  # what the load client sends
TARGETS = {
    "ns_cpu_us": ("CPU µs / request", 130.0),
    "chunk_cpu_us": ("CPU µs / streamed event, paced", 35.0),
    "stream_fixed_cpu_us": ("CPU µs / stream, fixed", None),
    "burst_cpu_us_per_chunk": ("CPU µs / event, burst", 5.0),
    "long_prompt_cpu_us": ("CPU µs / request, 220 KB prompt", 450.0),
    "low_cpu_us": ("CPU µs / request at 50/s", None),
    "low_added_p50_us": ("added latency at 50/s, p50 µs", 1000.0),
    "low_added_p99_us": ("added latency at 50/s, p99 µs", 3000.0),
    "ns_upstream_conns_per_request": ("engine connections / request", 0.05),
    "rss_idle_mb": ("RSS MB, idle", 90.0),
    "rss_500_streams_mb": ("RSS MB, 500 streams", 120.0),
    "paced_max_chunks_per_s": ("events/s held at p99 delay < 50 ms", -30_000.0),  # negative: at least
}
POLICY = """\
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    share: 100%
    objectives:
      - {{sli: ttft, below: 800ms, target: 99%}}
      - {{sli: itl, below: 150ms, target: 99%}}
tenants:
  - {{name: bench, tier: gold, keys: ["sha256:{digest}"]}}
pools:
  - {{name: mock, model: mock-model, engine: openai, replicas: ["http://127.0.0.1:{port}"], max_concurrency: 10000}}
"""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def build(tools: Path, to: Path) -> None:
    """Compile the mock engine and the load client."""
    for name in ("mock_upstream", "gwload"):
        subprocess.run(["cc", "-O2", "-o", to / name, tools / f"{name}.c"], check=True)


@contextmanager
def running(command: list[str], core: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours on one core, stopped at the end."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *command], stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until a real request is answered with 200; SystemExit with the log's end where that does not happen."""
    body = json.dumps(
        {"model": "mock-model", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    ).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, headers)
    last = ""
    for _ in range(100):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (OSError, urllib.error.URLError) as error:
            last = str(error)
        time.sleep(0.2)
    raise SystemExit(f"the gateway does not answer: {last}\n{log.read_text()[-3000:]}")


def command_for(what: str, port: int, mock: int, folder: Path) -> list[str]:
    """How to start what is to be measured."""
    if what == "raw":
        script = Path(os.environ["PLIMSOLL_TOOLS"]) / "gateway-bench" / "baselines" / "raw_proxy.py"
        return [sys.executable, str(script), "--port", str(port), "--upstream", f"127.0.0.1:{mock}"]
    if what == "stack":
        arguments = ["--port", str(port), "--replica", f"http://127.0.0.1:{mock}"]
        return [sys.executable, "-m", "benchmarks.passthrough", *arguments]
    policy = folder / "policy.yaml"
    policy.write_text(POLICY.format(digest=sha256(KEY.encode()).hexdigest(), port=mock))
    arguments = ["--port", str(port), "--admin-port", "0", "--data", str(folder / "data"), "--no-project"]
    return [sys.executable, "-m", "plimsoll", "serve", str(policy), *arguments]


def table(result: dict[str, Any]) -> str:
    """The figures beside the targets."""
    figures: dict[str, float] = {**result["median"], **{k: v for k, v in result.items() if isinstance(v, int | float)}}
    lines = [f"{'':45}{'measured':>12}{'target':>12}"]
    for key, (name, target) in TARGETS.items():
        if key not in figures:
            continue
        value = figures[key]
        goal, met = "", ""
        if target is not None:
            goal = f"≥ {-target:,.0f}" if target < 0 else f"≤ {target:g}"
            met = "ok" if (value >= -target if target < 0 else value <= target) else "MISSED"
        lines.append(f"{name:45}{value:>12,.2f}{goal:>12}  {met}")
    lines.append(f"others % of the gateway's core: {100 * figures.get('ns_others_share', 0):.0f}")
    return "\n".join(lines)


def main() -> None:
    """Build, start, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=["serve", "stack", "raw"], default="serve")
    parser.add_argument("--quick", action="store_true", help="only CPU per request and per event")
    parser.add_argument("--ramp", action="store_true", help="also the most events/s held")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--gateway-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write all figures there as JSON")
    a = parser.parse_args()
    if "PLIMSOLL_TOOLS" not in os.environ or shutil.which("cc") is None:
        raise SystemExit("PLIMSOLL_TOOLS must name the folder with gateway-bench, and a C compiler must be installed")
    tools = Path(os.environ["PLIMSOLL_TOOLS"]) / "gateway-bench"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(tools, folder)
        mock, port, log, out = free_port(), free_port(), folder / "log", folder / "result.json"
        with (
            running([str(folder / "mock_upstream"), str(mock)], a.load_core, log),
            running(command_for(a.what, port, mock, folder), a.gateway_core, log) as gateway,
        ):
            wait_until_it_answers(port, gateway, log)
            options = ["--repeat", str(a.repeat), "--seconds", str(a.seconds)]
            options += ["--quick"] * a.quick + ["--ramp"] * a.ramp
            subprocess.run(
                [
                    *("taskset", "-c", str(a.load_core), sys.executable, str(tools / "bench.py"), "--name", a.what),
                    *("--port", str(port), "--pid", str(gateway.pid), "--mock-port", str(mock), "--bin", str(folder)),
                    *("--out", str(out), *options),
                ],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        result = json.loads(out.read_text())
    print(table(result))
    for problem in result["problems"]:
        print("problem:", problem)
    if a.out:
        a.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
