"""OTLP over HTTP with protobuf bodies (opentelemetry.io/docs/specs/otlp): POST, gzip, and what the answers mean."""

import gzip
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Final
from urllib.parse import unquote, urlsplit

from google.protobuf.message import DecodeError, Message
from msgspec import Struct
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from plimsoll import __version__
from plimsoll.errors import UsageError

TIMEOUT: Final = 10.0
RETRIED: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the same may be sent again; after any other but success it must not be."""
_Answer = ExportTraceServiceResponse | ExportLogsServiceResponse | ExportMetricsServiceResponse
_ANSWERS: Final[dict[str, type[_Answer]]] = {
    "traces": ExportTraceServiceResponse,
    "logs": ExportLogsServiceResponse,
    "metrics": ExportMetricsServiceResponse,
}


class Sent(Struct, frozen=True):
    """How sending went: `again` where the same must be sent once more, after `wait` s where the collector said so."""

    again: bool = False
    wait: float | None = None
    trouble: str = ""  # "": all was taken


class Tls(Struct, frozen=True):
    """Files in PEM; "" for none."""

    ca: str = ""  # who signed the collector's certificate; "": the system's authorities
    cert: str = ""  # our own, for collectors that ask
    key: str = ""  # its key; "": in the same file


class Collector:
    """One receiver of OTLP."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], tls: Tls = Tls(), timeout: float = TIMEOUT) -> None:  # noqa: B008 - frozen
        """`endpoint` without `/v1/…`. Raises UsageError where it is no http(s) URL or a file cannot be used."""
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"--endpoint: expected a URL like http://collector:4318, got {endpoint!r}")
        self.endpoint = endpoint.rstrip("/")
        self._timeout = timeout
        self._headers = {
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            "user-agent": f"OTel-OTLP-Exporter-Plimsoll/{__version__}",
            **headers,
        }
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_context(tls))
        )

    def send(self, signal: str, message: Message) -> Sent:
        """POST one message of `traces`, `logs` or `metrics`. Never raises."""
        body = gzip.compress(message.SerializeToString(), 1)
        request = urllib.request.Request(f"{self.endpoint}/v1/{signal}", body, self._headers)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return _taken(signal, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in RETRIED:
                    return Sent(trouble=f"{signal} were refused: {error.code} {error.reason}")
                return Sent(True, _seconds(error.headers.get("retry-after")), f"{error.code} {error.reason}")
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            return Sent(True, None, str(reason) or type(error).__name__)


def read_headers(text: str) -> dict[str, str]:
    """`name=value,…` with percent-encoded values, as in OTEL_EXPORTER_OTLP_HEADERS. Raises UsageError."""
    found = {}
    for member in filter(None, text.split(",")):
        name, equals, value = member.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--headers: expected name=value,name=value, got {member!r}")
        found[name.strip().lower()] = unquote(value.strip())
    return found


def _taken(signal: str, body: bytes) -> Sent:
    """A collector may take a part and say how many it did not: these must not be sent again."""
    try:
        answer = _ANSWERS[signal].FromString(body)
    except DecodeError:
        return Sent()  # it said 200; its words are no protobuf
    part = answer.partial_success
    rejected = next((value for field, value in part.ListFields() if field.name.startswith("rejected")), 0)
    return Sent(trouble=f"{rejected} {signal} were rejected: {part.error_message}") if rejected else Sent()


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key or None)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(filter(None, (tls.ca, tls.cert, tls.key)))
        raise UsageError(f"the certificates ({named}) cannot be used: {error}") from error
    return context


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None  # a date: our own pause will do
