"""CPU of an emulator process that serves three replicas of 30 streams each: `python -m benchmarks.emulator`."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

NUM_REPLICAS, STREAMS, SECONDS = 3, 30, 8.0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def stream(port: int, tally: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"prompt": "x" * 400, "max_tokens": 100_000, "ignore_eos": True, "stream": True}).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    try:
        while data := await reader.read(65536):
            tally[0] += data.count(b"data: ")
    finally:
        writer.close()


async def measure(ports: list[int], pid: int) -> None:
    tally = [0]
    tasks = [asyncio.create_task(stream(port, tally)) for port in ports for _ in range(STREAMS)]
    await asyncio.sleep(2)
    events, cpu, began = tally[0], cpu_seconds(pid), time.monotonic()
    await asyncio.sleep(SECONDS)
    events, cpu, wall = tally[0] - events, cpu_seconds(pid) - cpu, time.monotonic() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(f"{events / wall:,.0f} events/s, {cpu / wall:.1%} of a core, {cpu / events * 1e6:.1f} us an event")


def main() -> None:
    command = [sys.executable, "-m", "plimsoll", "emulate", "--profile", "a100-llama70b-tp4", "--port", "0"]
    with subprocess.Popen([*command, "--replicas", str(NUM_REPLICAS)], stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise RuntimeError("no stdout")
        lines = [process.stdout.readline() for _ in range(NUM_REPLICAS)]
        ports = [int(match[1]) for line in lines if (match := re.search(r":(\d+) ", line))]
        try:
            asyncio.run(measure(ports, process.pid))
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
