"""`plimsoll serve`: the gateway."""

import asyncio
import gc
import logging
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from plimsoll.cli.consolebeside import address_of
from plimsoll.cli.options import Port
from plimsoll.cli.serving import Settings, serve_until_told
from plimsoll.errors import UsageError
from plimsoll.gateway.tls import ServingTls


def serve(
    policy_file: Annotated[Path, Parameter(name=["POLICY", "-c", "--config"])],
    *,
    host: str = "127.0.0.1",
    port: Port = 8000,
    admin_host: str = "127.0.0.1",
    admin_port: Port = 8001,
    data: Path = Path("plimsoll-data"),
    policy: str = "",
    writer: int = 1,
    project: bool = True,
    ledger: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_client_ca: Path | None = None,
    otel: str = "",
    console: Annotated[str | bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Serve the OpenAI API in front of the policy's replicas, by the policy's rules.

    Prints one READY line when it listens and has heard from the replicas. SIGTERM or Ctrl-C drains it: no new requests,
    open ones end. SIGHUP reads the policy again; a faulty one is told and the old one stays.

    Parameters
    ----------
    policy_file
        The policy (YAML). `plimsoll check` tells what is wrong with one, docs/policy.md explains every key.
    host
        Address to serve tenants on; 0.0.0.0 for all.
    port
        Port to serve tenants on; 0 for any free one.
    admin_host
        Address for /healthz, /readyz, /metrics and /admin: keep it on loopback or behind something.
    admin_port
        Port for them; 0 for any free one.
    data
        Data directory: journal, request log, ledger. Made where it is missing; one gateway a directory.
    policy
        Scheduling rules by name instead of the policy's own: `default` or `fcfs`.
    writer
        This gateway's number among those that post to one ledger (1 to 8388607).
    project
        Whether to start the process that writes Parquet files and the ledger from the journal.
    ledger
        Keep the books in PostgreSQL: postgresql://user@host/name. Default: ledger.sqlite in the data directory.
    tls_cert
        Serve TLS with this certificate (PEM, with its chain); read again at SIGHUP.
    tls_key
        The certificate's key (PEM, without passphrase). Default: in the same file.
    tls_client_ca
        Take only clients whose certificate one of these authorities has signed (PEM).
    otel
        Send traces, logs and metrics to this OpenTelemetry collector, by a process of its own (see `plimsoll otel`).
    console
        Show it in a browser, by a process of its own: at 127.0.0.1:8002, or HOST:PORT (see `plimsoll console`).
    """
    more = (ledger, _tls(tls_cert, tls_key, tls_client_ca), otel, address_of(console))
    _run(Settings(policy_file, policy, host, port, admin_host, admin_port, data, writer, project, *more))


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> ServingTls | None:
    if cert is None and (key or client_ca):
        raise UsageError("--tls-key and --tls-client-ca need --tls-cert")
    return None if cert is None else ServingTls(str(cert), str(key or cert), str(client_ca or ""))


def _run(settings: Settings) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )
    import uvloop  # noqa: PLC0415 - help and version need no event loop

    gc.collect()
    gc.freeze()
    gc.set_threshold(
        20_000, 50, 100
    )  # short-lived objects die by reference count; full passes would be felt by streams
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve_until_told(settings))
