"""Writing Prometheus' protobuf exposition (io.prometheus.client.MetricFamily, delimited), for native histograms.

Our log buckets are those of a native histogram of schema 5, so they go out as they are counted: no bound is chosen and
none is lost. We need four parts of the wire format (varint, zigzag, fixed64, delimited): a library would be longer.
Source of the field numbers: prometheus/client_model, io/prometheus/client/metrics.proto.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from plimsoll.telemetry.exposition import Distribution

CONTENT_TYPE: Final = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
SCHEMA: Final = 5  # buckets an octave: 2^5
KINDS: Final = {"counter": 0, "gauge": 1, "histogram": 4}
FIELD_OF_KIND: Final = {"counter": 3, "gauge": 2}
_pack_double: Final = struct.Struct("<d").pack


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
        self._head = _text(1, name) + _text(2, text) + _integer(3, KINDS[kind])

    def sample(self, value: float, /, **labels: str) -> None:
        """See `Exposition`."""
        self._metrics.append(_labels(labels) + _message(FIELD_OF_KIND[self._kind], _double(1, value)))

    def optional(self, value: float | None, /, **labels: str) -> None:
        """See `Exposition`."""
        if value is not None:
            self.sample(value, **labels)

    def histogram(self, bounds: Sequence[str], told: Distribution, /, **labels: str) -> None:
        """See `Exposition`. Native alone: who asks for this format takes no classic buckets where there are others."""
        body = _integer(1, told.num) + _double(2, told.total) + _native(told)
        self._metrics.append(_labels(labels) + _message(7, body))

    def encode(self) -> bytes:
        """See `Exposition`."""
        self._finish()
        return b"".join(self._families)

    def _finish(self) -> None:
        if self._metrics:  # a family without samples is none in this format
            body = self._head + b"".join([_message(4, metric) for metric in self._metrics])
            self._families.append(_varint(len(body)) + body)
        self._metrics = []


def _native(told: Distribution) -> bytes:
    """Schema, zero bucket, spans of successive indices, and each bucket's count less that of the one before."""
    parts = [_HEAD, _integer(7, told.num_zero)]
    spans: list[list[int]] = []  # [first index, length]
    deltas, before = [], 0
    for index, num in sorted(told.buckets.items()):
        if spans and index == spans[-1][0] + spans[-1][1]:
            spans[-1][1] += 1
        else:
            spans.append([index, 1])
        deltas.append(_DELTA + _varint(_zigzag(num - before)))
        before = num
    behind = 0
    for first, length in spans or [[0, 0]]:  # a span, if an empty one, says that this is a native histogram
        parts.append(_message(12, _integer(1, _zigzag(first - behind)) + _integer(2, length)))
        behind = first + length
    return b"".join(parts + deltas)


def _labels(labels: Mapping[str, str]) -> bytes:
    return b"".join([_message(1, _text(1, name) + _text(2, text)) for name, text in labels.items()])


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + _pack_double(value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


_HEAD: Final = _integer(5, _zigzag(SCHEMA)) + _double(6, 0.0)
_DELTA: Final = _varint(13 << 3)
