"""`plimsoll project`: bring the books and the Parquet files up to the log."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def project(
    directory: Path,
    *,
    follow_log: Annotated[bool, Parameter(name="--follow", negative="")] = False,
    ledger: str | None = None,
    parent: Annotated[int | None, Parameter(name="--parent", show=False)] = None,
) -> None:
    """Bring the ledger and the request log's Parquet files up to the journal of a data directory.

    `plimsoll serve` runs this by itself. By hand it helps after a gateway was run without it, and on copies.
    Whatever was interrupted before, each request is counted once.

    Parameters
    ----------
    directory
        The data directory, as given to `plimsoll serve`.
    follow_log
        Go on until SIGTERM or Ctrl-C, at most a second behind; then catch up and end.
    ledger
        Keep the books in PostgreSQL: postgresql://user@host/name. Default: ledger.sqlite in the directory.
    parent
        Process id of the gateway that started this one: end, up to date, when it is gone.
    """
    stopping: list[bool] = []
    if follow_log:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopping.append(True))
    # After the signals: a gateway that ends right after its start must not strike this process while it imports.
    from plimsoll.storage.projections import Follower, Projections, relax_collector  # noqa: PLC0415 - see above

    relax_collector()
    if follow_log:
        from plimsoll.cli.alerting import Alerting  # noqa: PLC0415 - as above
        from plimsoll.storage.budgeting import together  # noqa: PLC0415 - as above
        from plimsoll.storage.capabilities import CapabilityKeeper  # noqa: PLC0415 - as above

        alerting = Alerting(directory, _say)
        listener = together(alerting, CapabilityKeeper(directory, _say))
        follower = Follower(lambda: bool(stopping) or parent not in {None, os.getppid()}, _say, listener=listener)
        try:
            follower.run(directory, ledger)
        finally:
            alerting.close()
        return
    with Projections(directory, ledger) as projections:
        done = projections.catch_up()
    _say(f"{done.num_settled} requests posted; ledger and Parquet hold the log up to offset {done.posted_to}")


def _say(line: str) -> None:
    print(f"plimsoll project: {line}", file=sys.stderr, flush=True)  # noqa: T201 - the command's own voice
