"""Writing Prometheus' text format, version 0.0.4; `protobufpage.py` writes the same pages as protobuf."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_LABELS: Final = "\0"


class Distribution:
    """A histogram's values: counts up to each bound, of all, their sum; and the log buckets that they are made of."""

    __slots__ = ("buckets", "cumulated", "num", "num_zero", "total")

    def __init__(
        self, cumulated: Sequence[int], num: int, total: float, buckets: Mapping[int, int], num_zero: int
    ) -> None:
        self.cumulated = cumulated  # one for each bound
        self.num = num
        self.total = total
        self.buckets = buckets  # index i: (2^((i-1)/32), 2^(i/32)]
        self.num_zero = num_zero


class Exposition(Protocol):
    """A page being written, family by family, in whatever format."""

    content_type: str

    def family(self, name: str, kind: str, text: str) -> None:
        """Begin a family (`counter`, `gauge` or `histogram`); the samples that follow are its own."""

    def sample(self, value: float, /, **labels: str) -> None:
        """One sample of the family begun last."""

    def optional(self, value: float | None, /, **labels: str) -> None:
        """One sample, or none where the value is not known: unknown is not zero."""

    def histogram(self, bounds: Sequence[str], told: Distribution, /, **labels: str) -> None:
        """One histogram of the family begun last; `bounds` are upper edges as text, in order."""

    def encode(self) -> bytes:
        """The whole page."""


class Page:
    """Text."""

    def __init__(self) -> None:
        self.content_type = CONTENT_TYPE
        self._lines: list[bytes] = []  # encoded as they come: a page of a thousand tenants has 15 MB
        self._name = ""
        self._template = ""  # all lines of a histogram of this family but for labels and numbers

    def family(self, name: str, kind: str, text: str) -> None:
        """See `Exposition`."""
        self._name, self._template = name, ""
        self._lines.append(f"# HELP {name} {text}\n# TYPE {name} {kind}".encode())

    def sample(self, value: float, /, **labels: str) -> None:
        """See `Exposition`."""
        inner = _inner(labels)
        line = f"{self._name}{{{inner}}} {value:.15g}" if inner else f"{self._name} {value:.15g}"
        self._lines.append(line.encode())

    def optional(self, value: float | None, /, **labels: str) -> None:
        """See `Exposition`."""
        if value is not None:
            self.sample(value, **labels)

    def histogram(self, bounds: Sequence[str], told: Distribution, /, **labels: str) -> None:
        """See `Exposition`. A thousand tenants have 160,000 of these lines: one call of C formats forty."""
        if not self._template:
            self._template = self._lines_of(bounds)
        numbers = (*told.cumulated, told.num, told.total, told.num)
        self._lines.append((self._template % numbers).replace(_LABELS, _inner(labels)).encode())

    def _lines_of(self, bounds: Sequence[str]) -> str:
        buckets = [f'{self._name}_bucket{{{_LABELS},le="{bound}"}} %d' for bound in (*bounds, "+Inf")]
        return "\n".join([*buckets, f"{self._name}_sum{{{_LABELS}}} %.15g", f"{self._name}_count{{{_LABELS}}} %d"])

    def encode(self) -> bytes:
        """See `Exposition`."""
        return b"\n".join(self._lines) + b"\n"


def _inner(labels: Mapping[str, str]) -> str:
    return ",".join([f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()])
