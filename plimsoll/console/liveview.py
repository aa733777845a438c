"""A Live reading drawn for a terminal by `rich`: tenants, replicas, decisions streaming by; or told in plain lines."""

from typing import Final

from msgspec import Struct
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from plimsoll.console.live import ENOUGH, Line, Live, TenantReading

VERB_STYLES: Final = {
    "dispatch": "green",
    "enqueue": "yellow",
    "reject": "red",
    "shed": "red",
    "expire": "red",
    "expired": "red",
    "fail": "bold red",
    "failed": "bold red",
    "evict": "bold red",
    "evicted": "bold red",
    "aborted": "magenta",
    "cancelled": "magenta",
}


class ReplicaReading(Struct, frozen=True):
    """One replica now; None is unknown."""

    name: str
    healthy: bool
    running: int | None
    kv_usage_ratio: float | None


class Scene(Struct, frozen=True):
    """What stands around the figures."""

    title: str
    elapsed: float  # s
    total: float  # s; 0: no end known
    policy: str
    replicas: tuple[ReplicaReading, ...] = ()
    note: str = ""


def draw(live: Live, scene: Scene, now: float, height: int) -> RenderableType:
    """The whole view, as tall as the terminal allows; `now` on the gateway's clock."""
    readings = live.readings(now)
    num_lines = max(3, height - len(readings) - 11 - bool(scene.note))
    parts: list[RenderableType] = [_headline(live, scene), _tenants(readings)]
    if scene.replicas:
        parts.append(_replicas(scene.replicas))
    parts.append(_decisions(live, num_lines, now))
    if scene.note:
        parts.append(Text(scene.note, style="dim"))
    return Group(*parts)


def plain(live: Live, scene: Scene, now: float) -> str:
    """The same in one line, for logs."""
    parts = [f"{scene.elapsed:4.0f}s"]
    for reading in live.readings(now):
        left = _percent(reading.budget_left_ratio)
        figures = f"p50 {seconds(reading.p50)} p99 {_approximate(reading)} budget {left} queue {reading.num_queued}"
        parts.append(f"{reading.tenant}({reading.tier}) {figures}")
    return " | ".join(parts)


def _headline(live: Live, scene: Scene) -> RenderableType:
    total = f" of {scene.total:.0f}" if scene.total else ""
    endings = "  ".join(f"{outcome} {num}" for outcome, num in live.outcomes.most_common())
    text = Text.assemble(
        (f" {scene.title} ", "bold reverse"),
        f"  {scene.elapsed:.0f}{total} s  policy ",
        (scene.policy, "bold"),
        "   ",
        endings,
    )
    if live.num_dropped:
        text.append(f"  ({live.num_dropped} decisions not shown)", "dim")
    return text


def _tenants(readings: list[TenantReading]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True)
    table.add_column("tenant", no_wrap=True)
    table.add_column("tier", no_wrap=True)
    for name in ("TTFT p50", "p99", "p99÷p50", "attainment", "budget left", "queued", "running", "ended"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("not answered", no_wrap=True)
    for reading in readings:
        table.add_row(*_tenant_cells(reading))
    return table


def _tenant_cells(reading: TenantReading) -> list[RenderableType]:
    others = {name: num for name, num in reading.outcomes.items() if name != "completed"}
    return [
        Text(reading.tenant, style="bold"),
        reading.tier,
        seconds(reading.p50),
        Text(_approximate(reading), style=_ratio_style(reading.ratio)),
        Text(f"{reading.ratio:.1f}" if reading.ratio is not None else "–", style=_ratio_style(reading.ratio)),
        _attainment(reading),
        _budget(reading.budget_left_ratio),
        Text(str(reading.num_queued), style="yellow" if reading.num_queued else "dim"),
        str(reading.num_running),
        str(sum(reading.outcomes.values())),
        " ".join(f"{num} {name}" for name, num in others.items()),
    ]


def _approximate(reading: TenantReading) -> str:
    """A p99 of few values is marked: nothing bounds it from above."""
    mark = "≈" if reading.p99 is not None and reading.num_recent < ENOUGH else ""
    return mark + seconds(reading.p99)


def _ratio_style(ratio: float | None) -> str:
    """P99 ÷ P50: up to 2.5 is normal, above 4 alarms (DESIGN)."""
    if ratio is None:
        return "dim"
    return "red" if ratio > 4 else "yellow" if ratio > 2.5 else "green"


def _attainment(reading: TenantReading) -> Text:
    if reading.attainment_ratio is None or reading.target is None:
        return Text("–", style="dim")
    style = "green" if reading.attainment_ratio >= reading.target else "red"
    return Text(f"{reading.worst_objective} {reading.attainment_ratio:.1%}", style=style)


def _budget(left: float | None) -> Text:
    style = "dim" if left is None else "red" if left <= 0 else "yellow" if left < 0.2 else "green"
    return Text(_percent(left), style=style)


def _percent(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio:.0%}" if ratio > -9.99 else "< -999%"


def _replicas(replicas: tuple[ReplicaReading, ...]) -> Table:
    """A column each; hosts are named only where they differ."""
    hosts = {replica.name.partition(":")[0] for replica in replicas}
    row = Table.grid(padding=(0, 3))
    row.add_row(*(_replica(replica, one_host=len(hosts) == 1) for replica in replicas))
    return row


def _replica(replica: ReplicaReading, *, one_host: bool) -> Text:
    usage = replica.kv_usage_ratio
    filled = round(10 * min(1.0, usage)) if usage is not None else 0
    bar = "█" * filled + "░" * (10 - filled) if usage is not None else "?" * 10
    style = "red" if not replica.healthy or (usage or 0) > 0.95 else "yellow" if (usage or 0) > 0.8 else "green"
    name = ":" + replica.name.partition(":")[2] if one_host and ":" in replica.name else replica.name
    running = "?" if replica.running is None else replica.running
    return Text.assemble(f" {name} KV ", (bar, style), f" {_percent(usage)}, {running} running")


def _decisions(live: Live, num: int, now: float) -> Panel:
    rows = Table.grid(padding=(0, 2), expand=False)
    for line in live.last_lines(num):
        rows.add_row(*_line_cells(line, now))
    return Panel(rows, title=f"decisions ({live.num_decisions})", title_align="left", box=box.ROUNDED, height=num + 2)


def _line_cells(line: Line, now: float) -> list[RenderableType]:
    style = VERB_STYLES.get(line.verb, "")
    return [
        Text(f"{line.at - now:+6.1f} s", style="dim"),
        Text(line.tenant, style="bold"),
        Text(line.verb, style=style),
        Text(line.reason, style="cyan"),
        Text(line.more, style="dim"),
    ]


def seconds(value: float | None) -> str:
    """A time in the unit that reads best; – for unknown."""
    if value is None:
        return "–"
    if value >= 10:
        return f"{value:.0f}s"
    return f"{value:.2f}s" if value >= 1 else f"{value * 1e3:.0f}ms"
