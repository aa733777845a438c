"""`plimsoll compare`: two simulations, or a simulation and a live log, side by side."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from plimsoll.analytics.blocks import Blocks
from plimsoll.analytics.compare import Comparison, Difference, Method, Word, by_draws, by_seeds
from plimsoll.analytics.tally import promises_of
from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.output import print_json, terminal
from plimsoll.cli.summarytable import WIDTH
from plimsoll.errors import UsageError
from plimsoll.sim.randomness import stream
from plimsoll.sim.summary import Summary
from plimsoll.storage.promised import policy_in_force
from plimsoll.storage.query import connect, records
from plimsoll.units import format_duration

NUM_BLOCKS: Final = 30
NUM_DRAWS: Final = 1000
SHOWN: Final = (
    "goodput_ratio", "attainment:", "budget_spent_ratio:", "ttft_p50", "ttft_p99", "tpot_p99", "itl_p99", "e2e_p99",
)  # fmt: skip
"""Figures that are compared; those with a colon whatever follows it."""
_SAMPLE: Final = 2000  # arrivals that are looked at to see whether both sides saw the same


def compare(
    a: Path,
    b: Path,
    *,
    all_figures: Annotated[bool, Parameter(name="--all", negative="", help="Also figures that do not differ.")] = False,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print all differences as JSON.")] = False,
) -> None:
    """Compare two runs, or a run and a live log: what differs, by how much, and is it more than luck?

    A and B are directories that `simulate` left, or data directories of a gateway. Where both have the same seeds they
    are compared pair by pair; where a side has one run only, by drawing blocks of time anew, the same ones on both
    sides where both saw the same arrivals.

    Example: plimsoll compare tiers/ fcfs/
    """
    first, second = _summary(a), _summary(b)
    if first is not None and second is not None and min(len(first.seeds), len(second.seeds)) > 1:
        found = _of_seeds(str(a), str(b), first, second)
    else:
        found = _of_logs(a, b)
    if json_output:
        print_json(found)
    else:
        _show(found, all_figures=all_figures)


def _summary(directory: Path) -> Summary | None:
    """What `simulate` said, where it left the directory."""
    if not directory.is_dir():
        raise UsageError(f"compare: no directory {directory}")
    path = directory / "summary.json"
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Summary)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: not a summary of this version ({error}); simulate again") from error


def _of_seeds(a: str, b: str, first: Summary, second: Summary) -> Comparison:
    pairs = tuple(seed for seed in first.seeds if seed in second.seeds)
    pairs = pairs if len(pairs) > 1 else ()
    sides = []
    for summary in (first, second):
        groups = {(group.kind, group.name, group.tier): group for group in summary.groups}
        sides.append(
            {
                (key, figure): dict(zip(summary.seeds, each.values, strict=True))
                for key, group in groups.items()
                for figure, each in group.figures.items()
            }
        )
    wanted = [key for key in sides[0] if key in sides[1] and _is_shown(key[1])]
    differences = [by_seeds(key[0], key[1], sides[0][key], sides[1][key], pairs) for key in wanted]
    method = Method.PAIRED_SEEDS if pairs else Method.SEEDS
    return Comparison(a, b, method, pairs, tuple(differences), tuple(_partial(first, second)))


def _is_shown(figure: str) -> bool:
    head, colon, _ = figure.partition(":")
    return head + colon in SHOWN


def _partial(*summaries: Summary) -> Iterator[str]:
    if not all(summary.complete for summary in summaries):
        yield "A run was stopped early: both sides are compared as far as each went."


def _of_logs(a: Path, b: Path) -> Comparison:
    """By blocks of time; of a simulation with several seeds the first."""
    logs = [_log(a), _log(b)]
    spans = [_span(log) for log in logs]
    same = _same_arrivals(*logs)
    if same:
        spans = [(max(span[0] for span in spans), min(span[1] for span in spans))] * 2
    sides = []
    for log, span in zip(logs, spans, strict=True):
        blocks = Blocks(NUM_BLOCKS, *span)
        blocks.add(records(log), promises_of(policy_in_force(log)))
        sides.append(blocks)
    draws = [_draws("first"), _draws("first" if same else "second")]
    known = set(sides[1].figures())
    differences = [
        by_draws(group, figure, sides[0].drawn(group, figure, draws[0]), sides[1].drawn(group, figure, draws[1]))
        for group, figure in sides[0].figures()
        if (group, figure) in known and _is_shown(figure)
    ]
    notes = ["Waits whose answer never came count as longer than all others."]
    notes += [f"{path}: of its seeds the first" for path, log in zip((a, b), logs, strict=True) if "seed-" in log.name]
    method = Method.PAIRED_BLOCKS if same else Method.BLOCKS
    return Comparison(str(a), str(b), method, (), tuple(sorted(differences, key=_place)), tuple(notes))


def _place(difference: Difference) -> tuple[int, str, str, int]:
    kinds = ("all", "tier", "tenant")
    head, colon, _ = difference.figure.partition(":")
    figure = SHOWN.index(head + colon)
    return kinds.index(difference.kind), difference.tier, difference.name, figure


def _log(directory: Path) -> Path:
    """The data directory in (or of) it."""
    seeds = sorted(directory.glob("seed-*"), key=lambda path: int(path.name.removeprefix("seed-")))
    return seeds[0] if seeds else data_directory(directory)


def _span(log: Path) -> tuple[float, float]:
    with connect(log) as connection:
        first, last = connection.execute("SELECT min(arrived_at), max(arrived_at) FROM requests").fetchall()[0]
    if first is None:
        raise UsageError(f"compare: no requests in {log}")
    return first, last + 1e-6


def _same_arrivals(a: Path, b: Path) -> bool:
    """Whether both saw the same requests at the same instants: one workload, one seed."""
    query = "SELECT tenant, arrived_at, prompt_tokens FROM requests ORDER BY arrived_at, tenant LIMIT ?"
    sides = []
    for log in (a, b):
        with connect(log) as connection:
            sides.append(set(connection.execute(query, [_SAMPLE]).fetchall()))
    return len(sides[0] & sides[1]) >= 0.95 * max(len(sides[0]), len(sides[1]))


def _draws(name: str) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """How often each block is taken: once each, then at random; the same numbers in every call."""
    drawn = stream(1, "compare", name).multinomial(NUM_BLOCKS, [1 / NUM_BLOCKS] * NUM_BLOCKS, NUM_DRAWS)
    return np.concatenate([np.ones((1, NUM_BLOCKS), dtype=np.int64), drawn])


def _show(found: Comparison, *, all_figures: bool) -> None:
    console = terminal(WIDTH)
    for line in verdict(found):
        console.print(line, soft_wrap=True)
    said = {Word.BETTER, Word.WORSE}
    tenants = Counter(
        each.tier for each in found.differences if each.kind == "tenant" and each.figure == "goodput_ratio"
    )
    shown = [
        each
        for each in found.differences
        if (all_figures or each.word in said) and not (each.kind == "tier" and tenants[each.name] == 1)
    ]  # a tier of one tenant says nothing that the tenant does not
    if shown:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("who", "figure", "A", "B", "B − A", "95 %", ""):
            table.add_column(heading, justify="left" if heading in {"who", "figure", ""} else "right", no_wrap=True)
        for each in shown:
            table.add_row(*_row(each))
        console.print(table)
    for note in found.notes:
        console.print(f"[dim]{escape(note)}[/]", soft_wrap=True)


def verdict(found: Comparison) -> list[str]:
    """The comparison in a few lines."""
    counts = {word: sum(each.word is word for each in found.differences) for word in Word}
    how = {
        Method.PAIRED_SEEDS: f"{len(found.seeds)} seeds, pair by pair",
        Method.SEEDS: "two samples of seeds",
        Method.PAIRED_BLOCKS: f"the same arrivals, {NUM_BLOCKS} blocks of time pair by pair",
        Method.BLOCKS: f"different arrivals, {NUM_BLOCKS} blocks of time each",
    }[found.method]
    whole = [each for each in found.differences if each.kind == "all" and each.figure == "goodput_ratio"]
    lines = [f"A {escape(found.a)}", f"B {escape(found.b)}  [dim]({how})[/]"]
    lines += [f"[bold]Goodput[/]: {_sentence(each)}" for each in whole]
    lines.append(
        f"Of {len(found.differences)} figures B is [green]better in {counts[Word.BETTER]}[/], "
        f"[red]worse in {counts[Word.WORSE]}[/]; {counts[Word.SAME]} are the same, {counts[Word.NOT_SHOWN]} show no "
        f"difference, {counts[Word.UNKNOWN]} rest on too little."
    )
    if len(found.differences) > 20 and counts[Word.BETTER] + counts[Word.WORSE]:
        chance = 0.05 * len(found.differences)
        lines.append(f"[dim]Each is judged at 95 % alone: luck makes about {chance:.0f} of so many differ.[/]")
    return lines


def _sentence(each: Difference) -> str:
    if each.word is Word.UNKNOWN or each.delta is None:
        return "not enough data"
    colour = {Word.BETTER: "green", Word.WORSE: "red"}.get(each.word, "default")
    return f"{_value(each.figure, each.a)} → {_value(each.figure, each.b)}, [{colour}]{each.word.value}[/]"


def _row(each: Difference) -> tuple[str, ...]:
    who = {"all": "all", "tier": f"tier {each.name}"}.get(each.kind, f"{each.name} ({each.tier})")
    colour = {Word.BETTER: "green", Word.WORSE: "red"}.get(each.word, "dim")
    bounds = "" if each.low is None else f"{_delta(each.figure, each.low)} … {_delta(each.figure, each.high)}"
    return (
        escape(who), escape(each.figure.replace(":", " ")), _value(each.figure, each.a), _value(each.figure, each.b),
        _delta(each.figure, each.delta), bounds, f"[{colour}]{each.word.value}[/]",
    )  # fmt: skip


def _is_ratio(figure: str) -> bool:
    return figure.startswith(("goodput_ratio", "attainment", "budget_spent_ratio"))


def _value(figure: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2%}" if _is_ratio(figure) else format_duration(value)


def _delta(figure: str, value: float | None) -> str:
    if value is None:
        return "–"
    if _is_ratio(figure):
        return f"{100 * value:+.2f} pt"
    return ("+" if value >= 0 else "-") + format_duration(abs(value), 2)
