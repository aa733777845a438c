"""Writing Prometheus' text format, version 0.0.4; `protobufpage.py` writes the same pages as protobuf."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from plimsoll.telemetry.owners import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Counters(Protocol):
    """Series of one family, whose labels are written once."""

    def written(self, numbers: Sequence[int]) -> bytes:
        """Their samples now, a number each."""


class Times(Protocol):
    """A histogram's series, whose labels and bounds are written once."""

    def written(self, told: Histogram) -> bytes:
        """Their samples now; of what is fresh nothing. b"" where nothing was counted."""


class Exposition(Protocol):
    """A page being written, family by family, in whatever format."""

    content_type: str

    def family(self, name: str, kind: str, text: str) -> None:
        """Begin a family (`counter`, `gauge` or `histogram`); the samples that follow are its own."""

    def sample(self, value: float, /, **labels: str) -> None:
        """One sample of the family begun last."""

    def optional(self, value: float | None, /, **labels: str) -> None:
        """One sample, or none where the value is not known: unknown is not zero."""

    def counters(self, name: str, labels: Sequence[Mapping[str, str]]) -> Counters:
        """Series of a family of counters to keep from page to page, one for each of those sets of labels."""

    def times(self, name: str, bounds: Sequence[str], labels: Mapping[str, str]) -> Times:
        """Series of a family of histograms to keep from page to page; `bounds` are upper edges as text, in order."""

    def add(self, written: Iterable[bytes]) -> None:
        """Samples of the family begun last, as `Counters` or `Times` wrote them."""

    def pieces(self) -> list[bytes]:
        """The whole page, in order."""


class Page:
    """Text."""

    def __init__(self) -> None:
        self.content_type = CONTENT_TYPE
        self._pieces: list[bytes] = []
        self._name = ""

    def family(self, name: str, kind: str, text: str) -> None:
        """See `Exposition`."""
        self._name = name
        self._pieces.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode())

    def sample(self, value: float, /, **labels: str) -> None:
        """See `Exposition`."""
        inner = _inner(labels)
        line = f"{self._name}{{{inner}}} {value:.15g}\n" if inner else f"{self._name} {value:.15g}\n"
        self._pieces.append(line.encode())

    def optional(self, value: float | None, /, **labels: str) -> None:
        """See `Exposition`."""
        if value is not None:
            self.sample(value, **labels)

    def counters(self, name: str, labels: Sequence[Mapping[str, str]]) -> Counters:
        """See `Exposition`."""
        return _Counters(name, labels)

    def times(self, name: str, bounds: Sequence[str], labels: Mapping[str, str]) -> Times:
        """See `Exposition`."""
        return _Times(name, bounds, labels)

    def add(self, written: Iterable[bytes]) -> None:
        """See `Exposition`."""
        self._pieces += written

    def pieces(self) -> list[bytes]:
        """See `Exposition`."""
        return self._pieces


class _Counters:
    def __init__(self, name: str, labels: Sequence[Mapping[str, str]]) -> None:
        self._template = "".join([f"{name}{{{_literal(each)}}} %d\n" for each in labels]).encode()

    def written(self, numbers: Sequence[int]) -> bytes:
        return self._template % tuple(numbers)


class _Times:
    """A thousand tenants have 160,000 of these lines: one call of C formats forty-two."""

    def __init__(self, name: str, bounds: Sequence[str], labels: Mapping[str, str]) -> None:
        inner = _literal(labels)
        buckets = [f'{name}_bucket{{{inner},le="{bound}"}} %d\n' for bound in (*bounds, "+Inf")]
        self._template = "".join([*buckets, f"{name}_sum{{{inner}}} %.15g\n{name}_count{{{inner}}} %d\n"]).encode()

    def written(self, told: Histogram) -> bytes:
        if told.is_empty:
            return b""
        counts = told.cumulated()
        return self._template % (*counts, told.total, counts[-1])


def _literal(labels: Mapping[str, str]) -> str:
    return _inner(labels).replace("%", "%%")


def _inner(labels: Mapping[str, str]) -> str:
    return ",".join([f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()])
