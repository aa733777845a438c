"""io.prometheus.client's messages for Google's own protobuf library, as far as pages of ours use them."""

from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_KINDS: Final = {"string": 9, "double": 1, "uint64": 4, "uint32": 13, "sint32": 17, "sint64": 18, "int32": 5}
_FIELDS: Final = {
    "LabelPair": {"name": (1, "string"), "value": (2, "string")},
    "Gauge": {"value": (1, "double")},
    "Counter": {"value": (1, "double")},
    "BucketSpan": {"offset": (1, "sint32"), "length": (2, "uint32")},
    "Bucket": {"cumulative_count": (1, "uint64"), "upper_bound": (2, "double")},
    "Histogram": {
        "sample_count": (1, "uint64"), "sample_sum": (2, "double"), "bucket": (3, "*Bucket"), "schema": (5, "sint32"),
        "zero_threshold": (6, "double"), "zero_count": (7, "uint64"), "positive_span": (12, "*BucketSpan"),
        "positive_delta": (13, "*sint64"),
    },
    "Metric": {
        "label": (1, "*LabelPair"), "gauge": (2, "Gauge"), "counter": (3, "Counter"), "histogram": (7, "Histogram"),
    },
    "MetricFamily": {"name": (1, "string"), "help": (2, "string"), "type": (3, "int32"), "metric": (4, "*Metric")},
}  # fmt: skip
PACKAGE: Final = "io.prometheus.client"


def _family() -> Any:
    file = FileDescriptorProto(name="metrics.proto", package=PACKAGE, syntax="proto2")
    for message, fields in _FIELDS.items():
        made = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            field = made.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if kind.startswith("*"):
                field.label = FieldDescriptorProto.LABEL_REPEATED
            single = kind.lstrip("*")
            if single in _KINDS:
                field.type = _KINDS[single]
            else:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{PACKAGE}.{single}"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.MetricFamily"))


Family: Final = _family()


def families(data: bytes) -> list[Any]:
    """The families of a delimited page."""
    found, place = [], 0
    while place < len(data):
        size = shift = 0
        while True:
            byte = data[place]
            place += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        found.append(Family.FromString(data[place : place + size]))
        place += size
    return found


def delimited(family: Any) -> bytes:
    """That family as a page has it: its size before it."""
    body: bytes = family.SerializeToString()
    size, found = len(body), bytearray()
    while size >= 0x80:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*found, size)) + body
