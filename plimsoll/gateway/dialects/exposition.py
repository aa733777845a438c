"""Prometheus text, read for the few series that we need: found by name, not parsed line by line.

An engine's page has hundreds of lines and is read every second from every replica.
"""

import re
from math import inf, isfinite

from plimsoll.requestlog.enginestate import Histogram

_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

Sample = tuple[dict[bytes, bytes], float]


class Exposition:
    """One scraped page."""

    def __init__(self, text: bytes) -> None:
        self._text = b"\n" + text

    def samples(self, name: str) -> list[Sample]:
        """All series of exactly that name, with their labels; values that are no number are left out."""
        wanted = b"\n" + name.encode()
        found: list[Sample] = []
        place = self._text.find(wanted)
        while place >= 0:
            start = place + len(wanted)
            end = self._text.find(b"\n", start)
            line = self._text[start:end] if end >= 0 else self._text[start:]
            if line[:1] in (b"{", b" ", b"\t"):
                labels, _, value = line.rpartition(b"}")
                number = _number(value)
                if number is not None:
                    found.append((dict(_LABEL.findall(labels)), number))
            place = self._text.find(wanted, start)
        return found

    def total(self, *names: str, **labels: str) -> float | None:
        """The sum over all series of the first name that is there and that carry these labels; None: unknown."""
        for name in names:
            values = [value for found, value in self.samples(name) if _carries(found, labels)]
            if values:
                return sum(values)
        return None

    def mean(self, *names: str) -> float | None:
        """The mean over all series of the first name that is there; None: unknown."""
        for name in names:
            values = [value for _, value in self.samples(name)]
            if values:
                return sum(values) / len(values)
        return None

    def count(self, *names: str, **labels: str) -> int | None:
        """`total`, as a whole number."""
        total = self.total(*names, **labels)
        return None if total is None else int(total)

    def histogram(self, *names: str) -> Histogram | None:
        """All series of the first histogram of these names that is there, added up, by their bounds; None: unknown."""
        for name in names:
            total = self.total(f"{name}_sum")
            counts: dict[float, float] = {}
            for labels, value in self.samples(f"{name}_bucket"):
                bound = _bound(labels.get(b"le", b""))
                if bound is not None:
                    counts[bound] = counts.get(bound, 0.0) + value
            if counts and total is not None:
                bounds = tuple(sorted(counts))
                return Histogram(total, bounds, tuple([int(counts[bound]) for bound in bounds]))
        return None

    def texts(self, name: str, label: str) -> list[str]:
        """A label's texts, those of the series with the greatest value last."""
        found = sorted(self.samples(name), key=lambda sample: sample[1])
        return [labels[label.encode()].decode("utf-8", "replace") for labels, _ in found if label.encode() in labels]

    def label(self, name: str, label: str) -> list[int]:
        """A label that holds a whole number, of every series of that name that has it."""
        texts = [labels.get(label.encode(), b"") for labels, _ in self.samples(name)]
        return [int(text) for text in texts if text.isdigit() and len(text) < 20]


def _bound(text: bytes) -> float | None:
    return inf if text == b"+Inf" else _number(text)


def _number(text: bytes) -> float | None:
    parts = text.split()
    try:
        value = float(parts[0]) if parts else float("nan")
    except ValueError:
        return None
    return value if isfinite(value) else None


def _carries(found: dict[bytes, bytes], wanted: dict[str, str]) -> bool:
    return all(found.get(name.encode()) == value.encode() for name, value in wanted.items())
