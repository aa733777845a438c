"""`plimsoll top`: watch a running gateway in the terminal."""

import asyncio
import sys
from pathlib import Path

from plimsoll.cli.admintoken import read_token
from plimsoll.cli.watching import Watch, watch
from plimsoll.errors import UsageError
from plimsoll.policy import document


def top(
    policy: Path,
    /,
    *,
    admin: str = "http://127.0.0.1:8001",
    token: Path | None = None,
    plain: bool = False,
    picture: Path | None = None,
) -> None:
    """Watch a running gateway: P50, P99, ratio, attainment, budget and queue by tenant; decisions streaming by.

    Counts and budgets are since the view began, quantiles look back two minutes. Ctrl-C ends it.

    Parameters
    ----------
    policy
        The policy that the gateway runs.
    admin
        Base URL of its admin port.
    token
        File with the admin token, as `plimsoll serve` wrote it.
    plain
        Print a line every 10 s instead, as happens where the output is no terminal.
    picture
        Keep the last view there, as SVG.
    """
    if not admin.startswith(("http://", "https://")):
        raise UsageError(f"--admin {admin}: must be a URL like http://127.0.0.1:8001")
    what = Watch(
        title="plimsoll top",
        admin_url=admin,
        token=read_token(token),
        policy=document.load(policy),
        policy_name=policy.name,
        over=lambda: False,
        on_terminal=sys.stdout.isatty() and not plain,
        note="Ctrl-C ends the view, not the gateway.",
        picture=picture,
    )
    try:
        asyncio.run(watch(what))
    except KeyboardInterrupt:
        return
    raise UsageError(f"the gateway at {admin} has ended, or its admin port has: nothing more can be seen")
