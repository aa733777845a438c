"""Records as Arrow columns and back. Imports pyarrow, so it is itself imported only where a table is needed.

The columns are those of `requestlog/record.py`, in order, and then two of the log's own: `entries`, the ledger
entries made with the record, and `log_offset`, where its row ends in the log, which no two rows share.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import Any, Final

import msgspec
import pyarrow as pa

from plimsoll.governor.decisions import Settle
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.requestlog.record import SCHEMA_VERSION, Record

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_VERDICT: Final = pa.struct(
    [
        ("objective", pa.string()),
        ("judgement", pa.string()),
        ("num_good", pa.int64()),
        ("num_bad", pa.int64()),
        ("charge", pa.string()),
    ]
)
_ENTRY: Final = pa.struct(
    [
        ("kind", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("amount", pa.int64()),
        ("period", pa.string()),
    ]
)
_SKETCH: Final = pa.struct([("num_zero", pa.int64()), ("buckets", pa.map_(pa.int32(), pa.int64()))])

_SPECIAL: Final[dict[str, pa.DataType]] = {
    "request_id": pa.int64(),
    "client_request_id": pa.string(),
    "trace_id": pa.string(),
    "parent_span_id": pa.string(),
    "session": pa.string(),
    "itl_sketches": pa.list_(_SKETCH),
    "verdicts": pa.list_(_VERDICT),
}
"""Columns whose Arrow type does not follow from their Python type, or whose texts do not repeat."""


def _arrow_type(field: msgspec.structs.FieldInfo) -> pa.DataType:
    if field.name in _SPECIAL:
        return _SPECIAL[field.name]
    kinds = [kind for kind in getattr(field.type, "__args__", (field.type,)) if kind is not type(None)]
    if kinds == [bool]:
        return pa.bool_()
    if kinds == [int]:
        return pa.int64()
    if kinds == [float]:
        return pa.float64()
    return _TEXT  # texts and enums: few values, often repeated


_FIELDS: Final = msgspec.structs.fields(Record)
_LATER: Final = {field.name: field.default for field in _FIELDS if not field.required}
SCHEMA: Final = pa.schema(
    [
        *((field.name, _arrow_type(field)) for field in _FIELDS),
        ("entries", pa.list_(_ENTRY)),
        ("log_offset", pa.int64()),
    ],
    metadata={"plimsoll_schema": str(SCHEMA_VERSION)},
)


def table_of(settles: Sequence[Settle], offsets: Sequence[int]) -> pa.Table:
    """The settlements as a table; `offsets` are the log offsets at which their rows end."""
    columns: list[Any] = list(zip(*(msgspec.structs.astuple(settle.record) for settle in settles), strict=True))
    if not columns:
        columns = [() for _ in _FIELDS]
    arrays = [_array(field.name, values) for field, values in zip(_FIELDS, columns, strict=True)]
    entries = [settle.entries for settle in settles]
    arrays.append(_list_array(entries, _struct_array(_ENTRY, list(chain.from_iterable(entries)))))
    arrays.append(pa.array(offsets, pa.int64()))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def records_of(table: pa.Table) -> Iterator[Record]:
    """The records of a table; columns that it does not have yet take their defaults."""
    held = set(table.column_names)
    for batch in table.to_batches():
        columns = [
            _values(batch.column(field.name), field.name) if field.name in held else repeat(field.default)
            for field in _FIELDS
            if field.name in held or not field.required
        ]
        for row in zip(*columns, strict=False):
            yield msgspec.convert(row, Record)


def entries_of(table: pa.Table) -> Iterator[tuple[Entry, ...]]:
    """The ledger entries of each row."""
    for row in table.column("entries").to_pylist():
        yield tuple(Entry(EntryKind(each["kind"]), *list(each.values())[1:]) for each in row)


def _array(name: str, values: Sequence[Any]) -> pa.Array:
    if name == "verdicts":
        return _list_array(values, _struct_array(_VERDICT, list(chain.from_iterable(values))))
    if name == "itl_sketches":
        flat = list(chain.from_iterable(sketches or () for sketches in values))
        return _list_array(values, _struct_array(_SKETCH, flat))
    return pa.array(values, SCHEMA.field(name).type)


def _struct_array(kind: pa.DataType, values: Sequence[msgspec.Struct]) -> pa.Array:
    """Structs of ours as an array of Arrow structs with the same fields."""
    columns = list(zip(*map(msgspec.structs.astuple, values), strict=True)) or [()] * kind.num_fields
    fields = [kind.field(index) for index in range(kind.num_fields)]
    children = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields)


def _list_array(values: Sequence[Sequence[Any] | None], items: pa.Array) -> pa.Array:
    """Lists of the given items, as long as each value has; null where a value is None."""
    ends = list(accumulate((len(value) if value is not None else 0 for value in values), initial=0))
    missing = [value is None for value in values]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=mask)


def _values(column: pa.Array, name: str) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if name == "verdicts":
        return [tuple(tuple(each.values()) for each in row) for row in values]
    if name == "itl_sketches":
        return [row and tuple((each["num_zero"], dict(each["buckets"])) for each in row) for row in values]
    if name in _LATER and column.null_count:  # beside newer files, those from before the column show NULLs
        return [_LATER[name] if value is None else value for value in values]
    return values
