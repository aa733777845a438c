"""The metrics page written plainly from the rows, in both formats: what the kept and patched one must equal."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from plimsoll.requestlog.record import Record
from plimsoll.slo.timing import bucket_of
from plimsoll.slo.verdict import Judgement
from plimsoll.telemetry.owners import BOUNDS, LOWEST, STEP
from tests.telemetry.clientmodel import Family, delimited

KINDS = {"counter": 0, "histogram": 4}
Owners = list[tuple[dict[str, str], list[Record]]]


class Times:
    """Values of one kind of one owner, in the order in which they came."""

    def __init__(self) -> None:
        self.buckets: Counter[int] = Counter()
        self.num_zero, self.total = 0, 0.0

    def add(self, index: int | None, num: int, total: float) -> None:
        if index is None:
            self.num_zero += num
        else:
            self.buckets[index] += num
        self.total += total

    @property
    def num(self) -> int:
        return self.num_zero + self.buckets.total()


def times(rows: list[Record], name: str) -> Times:
    told = Times()
    for row in rows:
        if name == "itl":
            for sketch in (row.itl_sketches or ()) if row.dispatched_at is not None else ():
                told.add(None, sketch.num_zero, 0.0)
                for index, num in sketch.buckets.items():
                    told.add(index, num, num * 2 ** (index / 32))
            continue
        value = getattr(row, {"queued": "queued_for", "plugins": "plugin_time"}.get(name, name))
        if value is not None and (name in {"queued", "plugins"} or row.dispatched_at is not None):
            told.add(bucket_of(value) if value > 0 else None, 1, value)
    return told


def requests(rows: list[Record]) -> Iterable[tuple[dict[str, str], int]]:
    found = Counter((row.outcome.value, row.reason.value) for row in rows)
    return [({"outcome": outcome, "reason": reason}, num) for (outcome, reason), num in sorted(found.items())]


def verdicts(rows: list[Record]) -> Iterable[tuple[dict[str, str], int]]:
    said = [verdict for row in rows for verdict in row.verdicts]
    for name in sorted({verdict.objective for verdict in said}):
        mine = [verdict for verdict in said if verdict.objective == name]
        yield {"objective": name, "verdict": "bad"}, sum(verdict.num_bad for verdict in mine)
        for judgement in (Judgement.CENSORED, Judgement.EXCLUDED):
            num = sum(verdict.judgement is judgement for verdict in mine)
            yield {"objective": name, "verdict": judgement.value}, num
        yield {"objective": name, "verdict": "good"}, sum(verdict.num_good for verdict in mine)


def tokens(name: str) -> Callable[[list[Record]], Iterable[tuple[dict[str, str], int]]]:
    return lambda rows: [({}, sum(getattr(row, name) or 0 for row in rows if row.dispatched_at is not None))]


COUNTERS: list[tuple[str, str, Any]] = [
    ("plimsoll_requests_total", "Requests that ended, by how and why.", requests),
    ("plimsoll_verdicts_total", "What each objective said: requests, of itl tokens.", verdicts),
    ("plimsoll_prompt_tokens_total", "Prompt tokens of dispatched requests.", tokens("prompt_tokens")),
    ("plimsoll_output_tokens_total", "Output tokens.", tokens("output_tokens")),
    ("plimsoll_cached_tokens_total", "Prompt tokens that engines said were cached.", tokens("cached_tokens")),
]
HISTOGRAMS = [
    ("ttft", "Arrival to first token."),
    ("itl", "Gaps between successive output tokens."),
    ("e2e", "Arrival to last token."),
    ("queued", "Time in the queue."),
    ("plugins", "Time that plugins took."),
]


PLUGINS = ("plimsoll_plugin_answers_total", "What plugins said of requests.")


def answers(rows: Iterable[Record]) -> list[tuple[dict[str, str], int]]:
    said = [each for row in rows if row.plugin_time is not None and row.plugins for each in row.plugins.split(",")]
    return [
        (dict(zip(("plugin", "answer"), each.split(":"), strict=True)), num)
        for each, num in sorted(Counter(said).items())
    ]


def owners_of(rows: Iterable[Record]) -> Owners:
    found: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        found.setdefault((row.tenant, row.tier), []).append(row)
    return [({"tenant": key[0], "tier": key[1]}, mine) for key, mine in sorted(found.items())]


def text(rows: Iterable[Record]) -> bytes:
    """The text page."""
    owners, lines = owners_of(rows), []
    for name, told, read in COUNTERS:
        lines += [f"# HELP {name} {told}", f"# TYPE {name} counter"]
        for owner, mine in owners:
            lines += [f"{name}{{{inner(owner | labels)}}} {num}" for labels, num in read(mine)]
    for kind, told in HISTOGRAMS:
        name = f"plimsoll_{kind}_seconds"
        lines += [f"# HELP {name} {told}", f"# TYPE {name} histogram"]
        for owner, mine in owners:
            values = times(mine, kind)
            if values.num:
                lines += histogram_lines(name, owner, values)
    lines += [f"# HELP {PLUGINS[0]} {PLUGINS[1]}", f"# TYPE {PLUGINS[0]} counter"]
    lines += [f"{PLUGINS[0]}{{{inner(labels)}}} {num}" for labels, num in answers(rows)]
    return "".join(f"{line}\n" for line in lines).encode()


def histogram_lines(name: str, owner: dict[str, str], values: Times) -> Iterable[str]:
    for place, bound in enumerate(BOUNDS):
        below = sum(num for index, num in values.buckets.items() if index <= LOWEST + STEP * place)
        yield f"{name}_bucket{{{inner(owner | {'le': bound})}}} {values.num_zero + below}"
    yield f"{name}_bucket{{{inner(owner | {'le': '+Inf'})}}} {values.num}"
    yield f"{name}_sum{{{inner(owner)}}} {values.total:.15g}"
    yield f"{name}_count{{{inner(owner)}}} {values.num}"


def inner(labels: dict[str, str]) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in labels.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


def protobuf(rows: Iterable[Record]) -> bytes:
    """The protobuf page, by Google's own library."""
    owners, families = owners_of(rows), []
    for name, told, read in COUNTERS:
        family = Family(name=name, help=told, type=KINDS["counter"])
        for owner, mine in owners:
            for labels, num in read(mine):
                metric(family, owner | labels).counter.value = num
        families.append(family)
    for kind, told in HISTOGRAMS:
        family = Family(name=f"plimsoll_{kind}_seconds", help=told, type=KINDS["histogram"])
        for owner, mine in owners:
            values = times(mine, kind)
            if values.num:
                fill(metric(family, owner).histogram, values)
        families.append(family)
    family = Family(name=PLUGINS[0], help=PLUGINS[1], type=KINDS["counter"])
    for labels, num in answers(rows):
        metric(family, labels).counter.value = num
    families.append(family)
    return b"".join(delimited(family) for family in families if family.metric)


def metric(family: Any, labels: dict[str, str]) -> Any:
    added = family.metric.add()
    for name, value in labels.items():
        added.label.add(name=name, value=value)
    return added


def fill(histogram: Any, values: Times) -> None:
    histogram.sample_count, histogram.sample_sum = values.num, values.total
    histogram.schema, histogram.zero_threshold, histogram.zero_count = 5, 0.0, values.num_zero
    end = before = 0
    for index, num in sorted(values.buckets.items()):
        if histogram.positive_span and index == end:
            histogram.positive_span[-1].length += 1
        else:
            histogram.positive_span.add(offset=index - end, length=1)
        histogram.positive_delta.append(num - before)
        end, before = index + 1, num
    if not values.buckets:
        histogram.positive_span.add(offset=0, length=0)
