"""`plimsoll otel`: traces, logs and metrics to an OpenTelemetry collector."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from plimsoll.errors import UsageError
from plimsoll.telemetry.otel.place import check_installed

if TYPE_CHECKING:
    from plimsoll.telemetry.otel.wire import Collector


def otel(
    directory: Path,
    *,
    endpoint: str = "",
    headers: str = "",
    share: float = 0.05,
    metrics_every: float = 15.0,
    tenant_attribute: str = "plimsoll.tenant",
    resource: tuple[str, ...] = (),
    from_start: Annotated[bool, Parameter(negative="")] = False,
    once: Annotated[bool, Parameter(negative="")] = False,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    parent: Annotated[int | None, Parameter(name="--parent", show=False)] = None,
) -> None:
    """Send a data directory's requests and decisions to an OpenTelemetry collector: traces, logs, metrics.

    A process of its own that reads the journal: while the collector is away, rows wait there, and nobody who is served
    pays for it. It remembers how far it came. `plimsoll serve --otel URL` runs this by itself.

    Parameters
    ----------
    directory
        The data directory, as given to `plimsoll serve`; a simulated run's, too.
    endpoint
        The collector, OTLP over HTTP: http://collector:4318. Default: $OTEL_EXPORTER_OTLP_ENDPOINT.
    headers
        name=value,name=value to send along. Default: $OTEL_EXPORTER_OTLP_HEADERS.
    share
        Share of traces kept of requests that nothing happened to, 0 to 1. Whoever broke an objective, was charged, did
        not simply complete, or was slower than 95 % of its tenant's, is always kept.
    metrics_every
        Seconds between metrics.
    tenant_attribute
        Name of the attribute that holds the tenant: the GenAI conventions have none.
    resource
        name=value: an attribute of the resource, like deployment.environment.name=prod; may be repeated.
    from_start
        Where nothing was sent yet, begin with the oldest row that is kept, not with the next.
    once
        Send what is there, then end.
    ca
        Who signed the collector's certificate (PEM). Default: the system's authorities.
    cert
        Our certificate, for collectors that ask for one (PEM).
    key
        Its key (PEM). Default: in the same file.
    """
    stopping = _signals()
    _check(share, metrics_every)
    collector = _collector(endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", ""), headers, ca, cert, key)
    from plimsoll.telemetry.otel.following import Following, Settings  # noqa: PLC0415 - after the extra was asked for

    settings = Settings(share, metrics_every, tenant_attribute, _pairs(resource), from_start or once)
    following = Following(directory, collector, settings, _say)
    following.run(lambda: once or bool(stopping) or parent not in {None, os.getppid()})
    if once and following.trouble:
        sys.exit(1)


def _signals() -> list[bool]:
    """Not empty once it was told to end."""
    stopping: list[bool] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(True))
    return stopping


def _check(share: float, metrics_every: float) -> None:
    if not 0 <= share <= 1:
        raise UsageError(f"--share: expected 0 to 1, got {share:g}")
    if not metrics_every > 0:
        raise UsageError(f"--metrics-every: expected seconds above 0, got {metrics_every:g}")


def _collector(url: str, headers: str, ca: Path | None, cert: Path | None, key: Path | None) -> "Collector":
    if not url:
        raise UsageError("--endpoint is missing: the collector's URL, like http://collector:4318")
    check_installed()
    from plimsoll.telemetry.otel.wire import Collector, Tls, read_headers  # noqa: PLC0415 - an extra

    if key is not None and cert is None:
        raise UsageError("--key needs --cert")
    given = read_headers(headers or os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
    return Collector(url, given, Tls(str(ca or ""), str(cert or ""), str(key or "")))


def _pairs(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--resource: expected name=value, got {text!r}")
        found.append((name, value))
    return tuple(found)


def _say(line: str) -> None:
    print(f"plimsoll otel: {line}", file=sys.stderr, flush=True)  # noqa: T201 - the command's own voice
