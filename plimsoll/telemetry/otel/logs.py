"""Entries of the decision journal as log records: policies, budgets, decisions, requests that did not complete."""

from typing import Final

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import REASONS, Blame
from plimsoll.storage.chronicle import JournalEntry
from plimsoll.telemetry.otel.naming import TENANT, attributes, nanoseconds
from plimsoll.telemetry.otel.spans import span_id_of, trace_id_of

_INFO: Final = SeverityNumber.SEVERITY_NUMBER_INFO
_WARN: Final = SeverityNumber.SEVERITY_NUMBER_WARN
_ERROR: Final = SeverityNumber.SEVERITY_NUMBER_ERROR
URGENT: Final = {"exhausted": _ERROR, "degraded": _WARN, "warn": _WARN, "storage_full": _ERROR}
"""By state of a budget, or reason."""


def log_of(entry: JournalEntry, record: Record | None = None, tenant: str = TENANT) -> LogRecord:
    """One entry; `record` is the request's row where it is one's, and ties it to its trace."""
    severity = _severity(entry)
    made = LogRecord(
        time_unix_nano=nanoseconds(entry.at),
        observed_time_unix_nano=nanoseconds(entry.at),
        severity_number=severity,
        severity_text={_INFO: "INFO", _WARN: "WARN", _ERROR: "ERROR"}[severity],
        event_name=f"plimsoll.{entry.kind}",
        body=AnyValue(string_value=entry.text),
        attributes=attributes(
            {
                tenant: entry.tenant,
                "plimsoll.reason": entry.reason,
                "plimsoll.evidence": msgspec.json.encode(entry.detail).decode(),
            }
        ),
    )
    if record is not None:
        made.trace_id, made.span_id = trace_id_of(record), span_id_of(record)
    return made


def _severity(entry: JournalEntry) -> "SeverityNumber.ValueType":
    if entry.kind == "request":
        row = next((row for reason, row in REASONS.items() if reason.value == entry.reason), None)
        return _WARN if row is not None and row.blame is Blame.OURS else _INFO
    return URGENT.get(entry.reason, _INFO)
