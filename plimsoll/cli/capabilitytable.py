"""Capabilities as tables on a terminal."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.capability import Capabilities, ModelCapability
from plimsoll.console.figuretext import count_text


def show(found: Capabilities, console: Console) -> None:
    """Replicas by pool, then models; what is not known is a dash."""
    console.print(f"[bold]{escape(found.source)}[/]: {count_text(sum(one.num for one in found.replicas))} streams")
    if not found.replicas:
        console.print("No stream of two tokens and more ended in this log's last week.")
        return
    replicas = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    replicas.add_column("pool", no_wrap=True)
    replicas.add_column("replica", overflow="fold")  # what has to give on a narrow terminal
    for name in ("streams", "hours", "tokens/s", "variation", "gaps >\n500 ms", ""):
        replicas.add_column(name, justify="right", no_wrap=True)
    for one in found.replicas:
        replicas.add_row(
            escape(one.pool),
            escape(one.replica),
            count_text(one.num),
            str(one.hours),
            "–" if one.speed is None else f"{one.speed:.1f}",
            _share(one.variation),
            _share(one.stall_ratio),
            "[red]unsteady[/]" if one.unsteady else "",
        )
    console.print(replicas)
    models = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("pool", "model"):
        models.add_column(name, no_wrap=True)
    for name in ("quality", "time a\ntoken", "its\nP99", "P99 of\nTTFT", "gaps >\n500 ms"):
        models.add_column(name, justify="right", no_wrap=True)
    for model in found.models:
        models.add_row(
            escape(model.pool),
            escape(model.model),
            "–" if model.quality is None else f"{model.quality:g}",
            _time(model.latency),
            _time(model.tpot_p99),
            _time(model.ttft_p99),
            _share(model.stall_ratio),
        )
    console.print(models)
    for model in found.models:
        console.print(f"  {escape(model.pool)}: {_place(model)}{escape(_serves(model))}")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"


def _time(value: float | None) -> str:
    return "–" if value is None else f"{1000.0 * value:.1f} ms"


def _serves(model: ModelCapability) -> str:
    told = f"; serves {', '.join(model.serves)} first" if model.serves else ""
    return told + (f"; is the small model of {', '.join(model.small_for)}" if model.small_for else "")


def _place(model: ModelCapability) -> str:
    if model.beaten_by is None:
        return "not known: no quality in the policy" if model.quality is None else "not known: no streams"
    if model.beaten_by:
        return escape(f"behind {', '.join(model.beaten_by)}")
    return "[green]on the front[/]"
