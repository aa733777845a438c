"""`plimsoll console`: what Plimsoll knows, in a browser."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from plimsoll.cli.admintoken import read_token
from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import DataDir, Json, Port
from plimsoll.errors import UsageError
from plimsoll.gateway.listening import cannot_listen, in_url

if TYPE_CHECKING:
    from plimsoll.console.app import Console
    from plimsoll.console.store import Readers

LOOK_EVERY: Final = 0.5
"""s between looks at whether the gateway is still there."""


def console(
    directory: DataDir,
    *,
    host: str = "127.0.0.1",
    port: Port = 8002,
    admin: str = "",
    token: Path | None = None,
    json_output: Json = False,
    parent: Annotated[int | None, Parameter(show=False)] = None,
    sockets: Annotated[str, Parameter(show=False)] = "",
) -> None:
    """Show what Plimsoll knows in a browser: who is in danger, why, when budgets end, how much load is left.

    A process of its own, never on the data path: it reads the directory, and a gateway's admin port where one is named.
    Works beside a gateway, on a simulated run and on a log without either. Prints one READY line; Ctrl-C ends it.

    Parameters
    ----------
    host
        Address to listen on. Other than loopback it asks for the admin token.
    port
        Port to listen on; 0 for any free one.
    admin
        Base URL of the gateway's admin port, for live state: http://127.0.0.1:8001.
    token
        File with the admin token, which undo and override need; default: $PLIMSOLL_ADMIN_TOKEN, else the one in the
        directory.
    json_output
        Print READY as one JSON object: url, directory.
    parent
        Process id of the gateway that started this one: end when it is gone.
    sockets
        Descriptors of listening sockets of that gateway, to serve on, as 5,6.
    """
    if parent is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the gateway, which drains and then ends this
    if admin and not admin.startswith(("http://", "https://")):
        raise UsageError(f"--admin {admin}: must be a URL like http://127.0.0.1:8001")
    gc.disable()  # what is imported stays: passes over it would take a tenth of the time until READY
    root = data_directory(directory)
    given = read_token(token) if token else os.environ.get("PLIMSOLL_ADMIN_TOKEN", "")
    from plimsoll.console.app import Console  # noqa: PLC0415 - DuckDB and templates, only where they are needed
    from plimsoll.console.feed import Feed  # noqa: PLC0415 - as above
    from plimsoll.console.guarding import Guard, is_loopback  # noqa: PLC0415 - as above
    from plimsoll.console.store import Store  # noqa: PLC0415 - as above
    from plimsoll.storage.datadir import DataDirectory  # noqa: PLC0415 - as above

    DataDirectory(root).identity()  # says so where it is none
    guard = Guard(host, given, root / "admin.token")
    if not is_loopback(host) and not guard.token:
        raise UsageError(f"--host {host}: only with an admin token, and there is none; name its file with --token")
    if parent is None:
        os.nice(5)  # a gateway on this machine comes first; one that starts this has seen to that
    relax_collector()
    served = Console(Store(root, readers(), Feed(admin, guard.token) if admin else None), guard)
    ready = partial(_say_ready, host, root=root, json_output=json_output)
    asyncio.run(_serve(served, host, port, ready, parent=parent, sockets=sockets))


def relax_collector() -> None:
    """Collect again, but not what has been there since the start."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    gc.enable()


async def _serve(
    served: "Console", host: str, port: int, ready: Callable[[int], None], *, parent: int | None, sockets: str
) -> None:
    try:
        if sockets:
            await served.listen_on([socket.socket(fileno=int(number)) for number in sockets.split(",")])
        else:
            ready(await served.listen(host, port))
    except OSError as error:
        raise UsageError(cannot_listen(host, port, error, "--port")) from error
    try:
        await _until_told(parent)
    finally:
        await served.close()


async def _until_told(parent: int | None) -> None:
    """Until SIGTERM or Ctrl-C, or until the gateway is gone that started this process: kill -9 tells nobody."""
    told = asyncio.Event()
    for number in (signal.SIGTERM,) if parent else (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    while not told.is_set() and parent in {None, os.getppid()}:
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), LOOK_EVERY)


def _say_ready(host: str, port: int, *, root: Path, json_output: bool) -> None:
    url = f"http://{in_url(host)}:{port}/"
    if json_output:
        from plimsoll.cli.output import print_json  # noqa: PLC0415 - only where it is asked for

        print_json({"url": url, "directory": str(root)})
    else:
        sys.stdout.write(f"READY {url} shows {root}\n")
    sys.stdout.flush()


def readers() -> "Readers":
    """How the commands of their names read, for the console's pages."""
    from plimsoll.cli import explain as explaining  # noqa: PLC0415 - as above
    from plimsoll.cli.budgetbooks import rows_of  # noqa: PLC0415 - as above
    from plimsoll.cli.diagnosing import engines_of, states_between, visits_between  # noqa: PLC0415 - as above
    from plimsoll.cli.grid import replaced  # noqa: PLC0415 - as above
    from plimsoll.console.store import Readers  # noqa: PLC0415 - as above
    from plimsoll.diagnosis.explain import Explanation  # noqa: PLC0415 - as above
    from plimsoll.diagnosis.findings import Findings, findings  # noqa: PLC0415 - as above
    from plimsoll.ledger.assessment import Row  # noqa: PLC0415 - as above
    from plimsoll.storage.datadir import DataDirectory  # noqa: PLC0415 - as above
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above
    from plimsoll.storage.query import connect  # noqa: PLC0415 - as above

    def diagnose(root: Path, tenant: str | None, since: float, until: float) -> Findings:
        with connect(root, since) as connection:
            visits = visits_between(connection, since, until)
            states = states_between(connection, since, until)
        return findings(visits, engines_of(policy_in_force(root)), tenant or "", str(root), states)

    def explain(root: Path, request: str) -> Explanation:
        return explaining.make(root, request)[0]

    def budgets(root: Path) -> list[Row]:
        paths = DataDirectory(root)
        return rows_of(paths, None) if paths.ledger.exists() else []

    def changed(policy: str, path: str, value: str) -> str:
        return replaced(policy, path, value, path)

    return Readers(diagnose, explain, budgets, changed)
