"""`plimsoll console`: what Plimsoll knows, in a browser."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import DataDir, Json, Port
from plimsoll.cli.watching import read_token
from plimsoll.errors import UsageError
from plimsoll.gateway.listening import cannot_listen

if TYPE_CHECKING:
    from plimsoll.console.store import Readers


def console(
    directory: DataDir,
    *,
    host: str = "127.0.0.1",
    port: Port = 8002,
    admin: str = "",
    token: Path | None = None,
    json_output: Json = False,
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
        File with the admin token; default: the one in the directory. Undo and override need it.
    json_output
        Print READY as one JSON object: url, directory.
    """
    if admin and not admin.startswith(("http://", "https://")):
        raise UsageError(f"--admin {admin}: must be a URL like http://127.0.0.1:8001")
    root = data_directory(directory)
    given = read_token(token)
    from plimsoll.console.app import Console  # noqa: PLC0415 - DuckDB and templates, only where they are needed
    from plimsoll.console.feed import Feed  # noqa: PLC0415 - as above
    from plimsoll.console.guarding import Guard, is_loopback  # noqa: PLC0415 - as above
    from plimsoll.console.store import Store  # noqa: PLC0415 - as above
    from plimsoll.storage.datadir import DataDirectory  # noqa: PLC0415 - as above

    DataDirectory(root).identity()  # says so where it is none
    guard = Guard(host, given, root / "admin.token")
    if not is_loopback(host) and not guard.token:
        raise UsageError(f"--host {host}: only with an admin token, and there is none; name its file with --token")
    os.nice(5)  # the gateway beside it comes first

    async def serve() -> None:
        store = Store(root, readers(), Feed(admin, guard.token) if admin else None)
        served = Console(store, guard)
        try:
            bound = await served.listen(host, port)
        except OSError as error:
            raise UsageError(cannot_listen(host, port, error, "--port")) from error
        _say_ready(host, bound, root, json_output=json_output)
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        try:
            await told.wait()
        finally:
            await served.close()

    asyncio.run(serve())


def _say_ready(host: str, port: int, root: Path, *, json_output: bool) -> None:
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
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
        with connect(root) as connection:
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
