"""What the demo's clients saw, before, while and after the neighbour was noisy: the last thing the demo prints."""

from math import ceil
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from plimsoll.console.liveview import seconds
from plimsoll.load.demostage import NOISY, NOISY_FROM, NOISY_TO
from plimsoll.load.result import Result, Seen

PHASES = (("quiet", 0.0, NOISY_FROM), (f"{NOISY} noisy", NOISY_FROM, NOISY_TO), ("after", NOISY_TO, float("inf")))


def story(console: Console, rows: Path, speed: float, skip: float) -> None:
    """Print TTFT p50 and p99 by tenant and phase as clients saw them, and how many were not answered."""
    if not rows.exists():
        return
    decode = msgspec.json.Decoder(Result).decode
    results = [decode(line) for line in rows.read_bytes().splitlines()]
    sent = [result for result in results if result.outcome not in {Seen.UNSENT, Seen.STOPPED}]
    if not sent:
        return
    begun_at = min(result.scheduled_at for result in results) - skip / speed
    table = Table(title="What clients saw: TTFT p50 and p99, not answered", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("tenant")
    for name, _, _ in PHASES:
        table.add_column(name, justify="right")
    for tenant in dict.fromkeys(sorted(result.tenant for result in sent)):
        mine = [result for result in sent if result.tenant == tenant]
        table.add_row(tenant, *(_phase(mine, begun_at, start, end, speed) for _, start, end in PHASES))
    console.print(table)


def _phase(results: list[Result], begun_at: float, start: float, end: float, speed: float) -> str:
    inside = [result for result in results if start <= (result.scheduled_at - begun_at) * speed < end]
    if not inside:
        return "–"
    values = sorted(result.ttft for result in inside if result.ttft is not None)
    unanswered = sum(result.outcome is not Seen.COMPLETED for result in inside)
    figures = "  ".join(seconds(values[ceil(q * len(values)) - 1]) if values else "–" for q in (0.5, 0.99))
    return f"{figures}  {unanswered} of {len(inside)}" if unanswered else figures
