"""Rows stay readable when columns are added, in both directions."""

from typing import Any

import msgspec
import pytest

from plimsoll.requestlog.codec import NUM_FIRST_COLUMNS, Open, decode_open, decode_record, encode, settled_id
from plimsoll.requestlog.record import Record
from tests.storage.rows import record


class Later(Record, frozen=True, array_like=True):  # the schema of some later day
    shed_by: str = ""


def test_round_trip() -> None:
    assert decode_record(encode(record(7))) == record(7)


def test_old_rows_fill_new_columns_with_defaults() -> None:
    row = msgspec.msgpack.decode(encode(record(7)), type=Later)
    assert row.shed_by == ""
    assert row.tenant == "acme"


def test_new_rows_are_read_by_the_old() -> None:
    values: dict[str, Any] = {name: getattr(record(7), name) for name in Record.__struct_fields__}
    assert decode_record(encode(Later(**values, shed_by="queue"))) == record(7)


def test_columns_are_only_ever_added() -> None:
    fields = msgspec.structs.fields(Record)
    assert fields[0].name == "request_id"
    assert fields[NUM_FIRST_COLUMNS - 1].name == "report_age"
    for field in fields[NUM_FIRST_COLUMNS:]:
        assert not field.required, f"{field.name} is new: rows of schema 1 need a default for it"


def test_first_open_rows_are_enough() -> None:
    assert decode_open(encode((5, "acme", "gold", 1.0))) == Open(5, "acme", "gold", 1.0)


@pytest.mark.parametrize("request_id", [1, 200, 70_000, 1 << 33, (5 << 40) + 7, (1 << 63) - 1])
def test_the_id_alone(request_id: int) -> None:
    assert settled_id(encode((record(request_id), ()))) == request_id
