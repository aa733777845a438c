"""Writing Prometheus' protobuf exposition (io.prometheus.client.MetricFamily, delimited), for native histograms.

Source of the field numbers: prometheus/client_model, io/prometheus/client/metrics.proto.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plimsoll.telemetry.exposition import Counters, Times
from plimsoll.telemetry.nativetimes import NativeTimes
from plimsoll.telemetry.protowire import DOUBLE_SIZE, integer, message, pack_double, tag, varint
from plimsoll.telemetry.protowire import text as _text

CONTENT_TYPE: Final = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
KINDS: Final = {"counter": 0, "gauge": 1, "histogram": 4}
FIELD_OF_KIND: Final = {"counter": 3, "gauge": 2}


def is_wanted(accept: str) -> bool:
    """Whether a scraper's Accept header takes this format: Prometheus asks for it where native histograms are on."""
    first = accept.lower().partition(",")[0].replace(" ", "")
    return first.startswith("application/vnd.google.protobuf") and "io.prometheus.client.metricfamily" in first


class ProtobufPage:
    """A page in that format (`exposition.Exposition`)."""

    def __init__(self) -> None:
        self.content_type = CONTENT_TYPE
        self._families: list[bytes] = []
        self._head = b""
        self._kind = ""
        self._metrics: list[bytes] = []

    def family(self, name: str, kind: str, text: str) -> None:
        """See `Exposition`."""
        self._finish()
        self._kind = kind
        self._head = _text(1, name) + _text(2, text) + integer(3, KINDS[kind])

    def sample(self, value: float, /, **labels: str) -> None:
        """See `Exposition`."""
        self._metrics.append(_head_of(FIELD_OF_KIND[self._kind], labels) + pack_double(value))

    def optional(self, value: float | None, /, **labels: str) -> None:
        """See `Exposition`."""
        if value is not None:
            self.sample(value, **labels)

    def counters(self, name: str, labels: Sequence[Mapping[str, str]]) -> Counters:
        """See `Exposition`."""
        return _Counters(labels)

    def times(self, name: str, bounds: Sequence[str], labels: Mapping[str, str]) -> Times:
        """See `Exposition`. Native alone: who asks for this format takes no classic buckets where there are others."""
        return NativeTimes(_labels(labels))

    def add(self, written: Iterable[bytes]) -> None:
        """See `Exposition`."""
        self._metrics += written

    def pieces(self) -> list[bytes]:
        """See `Exposition`."""
        self._finish()
        return self._families

    def _finish(self) -> None:
        size = sum(map(len, self._metrics))
        if size:  # a family without samples is none in this format
            self._families += (varint(len(self._head) + size), self._head, *self._metrics)
        self._metrics = []


class _Counters:
    def __init__(self, labels: Sequence[Mapping[str, str]]) -> None:
        self._heads = [_head_of(FIELD_OF_KIND["counter"], each) for each in labels]

    def written(self, numbers: Sequence[int]) -> bytes:
        return b"".join([head + pack_double(num) for head, num in zip(self._heads, numbers, strict=True)])


def _head_of(field: int, labels: Mapping[str, str]) -> bytes:
    """A metric of one number in that field, all but the number's eight bytes."""
    told, number = _labels(labels), tag(1, 1)
    value = tag(field, 2) + varint(len(number) + DOUBLE_SIZE) + number
    return tag(4, 2) + varint(len(told) + len(value) + DOUBLE_SIZE) + told + value


def _labels(labels: Mapping[str, str]) -> bytes:
    return b"".join([message(1, _text(1, name) + _text(2, told)) for name, told in labels.items()])
