"""The log, row by row, to a collector: from where we were, again and again, at nobody's cost.

The gateway knows nothing of this. Rows lie in the journal until they are sent; where the collector is away they wait
there, and what it took is remembered (`otel.json` in the data directory) once it has said so: after a crash the last
batch is sent again, with the same ids, so that a collector's store keeps it once.
"""

import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from google.protobuf.message import Message
from msgspec import Struct
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics, ScopeMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from plimsoll.errors import StorageError
from plimsoll.requestlog.codec import RowKind
from plimsoll.requestlog.record import Record
from plimsoll.storage.chronicle import Chronicler, Wanted
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.reader import Row, first_offset, read_rows
from plimsoll.storage.rows import decode_settle
from plimsoll.telemetry.otel.keeping import Keeping
from plimsoll.telemetry.otel.logs import log_of
from plimsoll.telemetry.otel.measures import Measures
from plimsoll.telemetry.otel.naming import TENANT, resource, scope
from plimsoll.telemetry.otel.place import Place
from plimsoll.telemetry.otel.spans import spans_of, trace_id_of
from plimsoll.telemetry.otel.wire import Collector

BATCH_ROWS: Final = 512
PAUSE: Final = 1.0  # s between looks at a log that has nothing new
LONGEST_PAUSE: Final = 30.0  # s between tries of a collector that is away


class Settings(Struct, frozen=True):
    """What is sent, and how it is named."""

    share: float = 0.05  # of requests to which nothing happened: their traces
    metrics_every: float = 15.0  # s
    tenant: str = TENANT  # name of the attribute with the tenant
    more: tuple[tuple[str, str], ...] = ()  # attributes of the resource
    from_start: bool = False  # begin with the oldest row that is kept, where nothing was sent before


class Following:
    """Sends what is new; `run` until told to stop."""

    def __init__(self, directory: Path, collector: Collector, settings: Settings, say: Callable[[str], None]) -> None:
        """UsageError where that is no data directory."""
        paths = DataDirectory(directory)
        self._place = Place(directory)
        self._journal = paths.journal
        self._collector = collector
        self._settings = settings
        self._say = say
        self._keeping = Keeping(settings.share)
        self._measures = Measures(time.time(), settings.tenant)
        self._chronicler = Chronicler(Wanted())
        self._resource = resource(settings.more)
        self.trouble = ""  # of the last message; "": all is well
        self.offset = self._place.begin(from_start=settings.from_start)

    def run(self, stopped: Callable[[], bool]) -> None:
        """Until `stopped`; then what is new is sent once more, as far as the collector takes it at once."""
        metrics_at = time.monotonic()
        while not stopped():
            more = self.advance(stopped)
            if time.monotonic() - metrics_at >= self._settings.metrics_every:
                metrics_at = time.monotonic()
                self.send_metrics(stopped)
            if not more:
                _sleep(PAUSE, stopped)
        while self.advance(lambda: True):
            pass
        self.send_metrics(lambda: True)

    def advance(self, stopped: Callable[[], bool]) -> bool:
        """Send the next batch of rows, until it is taken or `stopped`; whether there may be more."""
        spans: list[Span] = []
        logs: list[LogRecord] = []
        records: list[Record] = []
        end, num = self.offset, 0
        for row in self._rows():
            end, num = row.end, num + 1
            record = self._read(row, logs)
            if record is not None:
                records.append(record)
                why = self._keeping.why(trace_id_of(record), record)
                spans += spans_of(record, why, self._settings.tenant) if why else ()
            if num >= BATCH_ROWS:
                break
        if num and self._send_all(spans, logs, stopped):
            for record in records:
                self._measures.add(record)
            self.offset = end
            self._place.remember(end)
        return num >= BATCH_ROWS and self.offset == end

    def send_metrics(self, stopped: Callable[[], bool]) -> bool:
        """Send the counts as they stand; whether they were taken."""
        found = self._measures.metrics(time.time())
        held = ScopeMetrics(scope=scope(), metrics=found)
        message = ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=self._resource, scope_metrics=[held])]
        )
        return not found or self._send("metrics", message, stopped)

    def _read(self, row: Row, logs: list[LogRecord]) -> Record | None:
        """The row's record, where it has one; its entries in the decision journal go to `logs`."""
        if row.kind == RowKind.SETTLE:
            record = decode_settle(row.payload).record
            logs += [log_of(entry, record, self._settings.tenant) for entry in self._chronicler.settled(record)]
            return record
        logs += [log_of(entry, tenant=self._settings.tenant) for entry in self._chronicler.take(row)]
        return None

    def _send_all(self, spans: list[Span], logs: list[LogRecord], stopped: Callable[[], bool]) -> bool:
        messages: list[tuple[str, Message]] = []
        if spans:
            held = ScopeSpans(scope=scope(), spans=spans)
            traced = ResourceSpans(resource=self._resource, scope_spans=[held])
            messages.append(("traces", ExportTraceServiceRequest(resource_spans=[traced])))
        if logs:
            said = ScopeLogs(scope=scope(), log_records=logs)
            logged = ResourceLogs(resource=self._resource, scope_logs=[said])
            messages.append(("logs", ExportLogsServiceRequest(resource_logs=[logged])))
        return all(self._send(signal, message, stopped) for signal, message in messages)

    def _send(self, signal: str, message: Message, stopped: Callable[[], bool]) -> bool:
        """Until it is taken or refused for good (which is told), or `stopped`: at least once."""
        pause = PAUSE
        while True:
            sent = self._collector.send(signal, message)
            if sent.trouble and sent.trouble != self.trouble:
                what = "rows wait in the journal" if sent.again else "they are not sent again"
                self._say(f"{self._collector.endpoint}: {sent.trouble}: {what}")
            elif self.trouble and not sent.trouble:
                self._say(f"{self._collector.endpoint}: sending goes on")
            self.trouble = sent.trouble
            if not sent.again:
                return True
            if stopped():
                return False
            _sleep(pause if sent.wait is None else sent.wait, stopped)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _rows(self) -> Iterator[Row]:
        """New rows. Where the log no longer goes back to where we were, from its beginning, which is told."""
        rows = read_rows(self._journal, self.offset)
        try:
            first = next(rows, None)
        except StorageError as error:
            self._say(f"{error}: going on from the oldest row that is kept")
            self.offset = first_offset(self._journal)
            rows = read_rows(self._journal, self.offset)
            first = next(rows, None)
        return iter(()) if first is None else chain((first,), rows)


def _sleep(seconds: float, stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not stopped() and (left := until - time.monotonic()) > 0:
        time.sleep(min(0.2, left))
