"""An SLO as other tools write it, in one neutral form: what is measured, how good it must be, over which time.

The form is that of OpenSLO v1 with one target an SLO, so that whatever was read can be written as OpenSLO again.
Numbers are exact fractions of the digits in the file. What a metric source is asked stays as it was written: its
language is the source's own.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from plimsoll.errors import Fault, UsageError

VERSION: Final = 1
"""Of the JSON form, the number behind its `plimsoll_slos` key."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_LATENCY: Final = re.compile(r"_bucket\b|\bhistogram_|latenc|duration_(milli)?seconds")
_LATENCY_KEYS: Final = frozenset({"threshold_bucket", "latency", "range_max"})
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "M": 2_592_000, "Q": 7_776_000, "Y": 31_536_000}


class Kind(StrEnum):
    """How an indicator tells good from bad."""

    GOOD_TOTAL = "good_total"  # good events of all
    BAD_TOTAL = "bad_total"  # bad events of all
    GOOD_BAD = "good_bad"  # good events, and bad ones
    SUCCESS = "success"  # one query gives the ratio of good events
    FAILURE = "failure"  # one query gives the ratio of bad events
    THRESHOLD = "threshold"  # a value is compared
    LATENCY = "latency"  # a duration, or a distribution of durations, is compared


class Budgeting(StrEnum):
    """What is counted against the target."""

    OCCURRENCES = "Occurrences"  # events
    TIMESLICES = "Timeslices"  # slices of time that are good
    RATIO_TIMESLICES = "RatioTimeslices"  # mean of the slices' own ratios


class Meta(Struct, frozen=True):
    """How a thing is called. `name` is a DNS label; what was not is kept in the annotation `plimsoll/name`."""

    name: str
    display_name: str = ""
    labels: Mapping[str, tuple[str, ...]] = {}
    annotations: Mapping[str, str] = {}


class Query(Struct, frozen=True):
    """What a metric source is asked. `spec` holds the source's own keys, as written."""

    spec: Mapping[str, Any]
    type: str = ""  # of the source, in its tool's word: Prometheus, datadog …
    ref: str = ""  # name of a data source described elsewhere

    @property
    def text(self) -> str:
        """The query itself where the spec has one, else every text of the spec."""
        for key in ("query", "expression", "metric"):
            if isinstance(found := self.spec.get(key), str):
                return found
        return " ".join(value for value in self.spec.values() if isinstance(value, str))


class Indicator(Struct, frozen=True):
    """What is measured. `queries` are by role: good, bad, total; success or failure; metric."""

    meta: Meta
    kind: Kind
    queries: Mapping[str, Query]
    counter: bool | None = None  # whether the numbers only rise; None: not said
    description: str = ""


class Window(Struct, frozen=True):
    """The time over which the target holds: `count` × m, h, d, w, M, Q or Y."""

    count: int
    unit: str
    rolling: bool = True
    start: str = ""  # of the first calendar window, "2022-01-01 12:00:00" in `timezone`
    timezone: str = ""

    @property
    def seconds(self) -> float:
        """Nominal length: a month is 30 days."""
        return float(self.count * _SECONDS[self.unit])

    def __str__(self) -> str:
        return f"{self.count}{self.unit}"


class Definition(Struct, frozen=True):
    """Another object of OpenSLO v1 (Service, SLI, DataSource, Alert…): its spec as OpenSLO writes it."""

    kind: str
    meta: Meta
    spec: Mapping[str, Any] = {}


class Slo(Struct, frozen=True, kw_only=True):
    """One target for one indicator over one window. `alerts` are inline alert policies or names of some."""

    meta: Meta
    service: str
    target: Fraction  # 0 <= target < 1
    indicator: Indicator | None = None  # None: only `indicator_ref` is known
    indicator_ref: str = ""
    budgeting: Budgeting = Budgeting.OCCURRENCES
    window: Window | None = None
    description: str = ""
    objective: str = ""  # the objective's own display name
    op: str = ""  # lte | gte | lt | gt: how `value` is compared
    value: Fraction | None = None
    slice_target: Fraction | None = None
    slice_window: Window | None = None
    alerts: tuple[Definition | str, ...] = ()


class Loss(Struct, frozen=True):
    """A part of a source that has no place in the neutral form; everything below `path` is meant."""

    source: str
    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.path}: {self.reason}"


class Imported(Struct, frozen=True):
    """What reading some files came to. Faulty SLOs are not among `slos`; each has its faults told."""

    slos: tuple[Slo, ...] = ()
    definitions: tuple[Definition, ...] = ()
    losses: tuple[Loss, ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()  # with the source that has it
    warnings: tuple[tuple[str, Fault], ...] = ()
    sources: Mapping[str, str] = {}  # by source: the formats found in it


def indicator(
    meta: Meta, queries: Mapping[str, Query], counter: bool | None = None, description: str = ""
) -> Indicator:
    """An indicator whose kind follows from its queries."""
    return Indicator(meta, kind_of(queries), queries, counter, description)


def kind_of(queries: Mapping[str, Query]) -> Kind:
    """From roles and, to tell latencies, from what is asked."""
    if "success" in queries:
        return Kind.SUCCESS
    if "failure" in queries:
        return Kind.FAILURE
    asked = queries.get("metric") or queries.get("good")
    timed = asked is not None and bool(_LATENCY.search(asked.text) or _LATENCY_KEYS & asked.spec.keys())
    if "metric" in queries:
        return Kind.LATENCY if timed else Kind.THRESHOLD
    if "total" not in queries:
        return Kind.GOOD_BAD
    if "bad" in queries:
        return Kind.BAD_TOTAL
    return Kind.LATENCY if timed and "le=" in (asked.text if asked else "") else Kind.GOOD_TOTAL


def dns_label(name: str) -> str:
    """The name as a DNS label (RFC 1123: at most 63 of a-z, 0-9 and dash), the same for the same name."""
    label = _NOT_IN_NAMES.sub("-", name.lower()).strip("-") or "unnamed"
    return label if len(label) <= 63 else f"{label[:54].rstrip('-')}-{sha256(name.encode()).hexdigest()[:8]}"


def number(value: Fraction) -> int | float:
    """For JSON and YAML: whole, or the float whose shortest digits were written in the source."""
    return int(value) if value.denominator == 1 else float(value)


def encode(imported: Imported) -> bytes:
    """The JSON form, which `decode` reads back as the same value."""
    return msgspec.json.encode({"plimsoll_slos": VERSION, "imported": imported}, enc_hook=_write)


def decode(data: bytes, source: str) -> Imported:
    """What `encode` wrote; UsageError where it is something else."""
    try:
        found = msgspec.json.decode(data, type=_Envelope, dec_hook=_read)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{source} was not written by `plimsoll import`: {error}") from error
    if found.plimsoll_slos != VERSION:
        raise UsageError(f"{source} has version {found.plimsoll_slos}, this Plimsoll reads {VERSION}")
    return found.imported


class _Envelope(Struct):
    plimsoll_slos: int
    imported: Imported


def _write(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    raise NotImplementedError(f"no JSON form for {type(value)}")


def _read(kind: type, value: object) -> object:
    if kind is Fraction and isinstance(value, str):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError) as error:
            raise ValueError(f"{value!r} is no fraction") from error
    raise NotImplementedError(f"no {kind} in this form")
