"""Which policies a data directory was run under: the copy in force, and earlier versions from its books."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from plimsoll.analytics.gathering import zone_of
from plimsoll.errors import UsageError
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.storage.datadir import DataDirectory
from plimsoll.storage.policies import decode_policy


def policy_in_force(directory: Path) -> Policy:
    """The policy that the gateway copied into the directory when it last read it.

    Raises UsageError where there is none or this is no data directory, PolicyError where it is no longer good.
    """
    paths = DataDirectory(directory)
    if not paths.policy.exists():
        paths.identity()
        raise UsageError(f"{directory} holds no policy.yaml: copy there the policy that it was run under")
    found = paths.policy.stat()
    return _read(paths.policy, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, *_: int) -> Policy:
    """Once as long as the file is the same: a policy of 200 tenants takes as long as a look at an hour of log."""
    return document.load(path)


def policy_versions(directory: Path) -> dict[str, Policy]:
    """Every policy by which requests were judged, by version, as far as the ledger was projected.

    Reads only, and finds nothing where there is no ledger yet.
    """
    path = DataDirectory(directory).ledger
    if not path.exists():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)) as connection:
            rows = connection.execute("SELECT version, data FROM policies").fetchall()
    except sqlite3.Error:  # a ledger that is being made, or is of another kind: budgets then follow the latest targets
        return {}
    return {version: decode_policy(data) for version, data in rows}


def zones_of(directory: Path) -> Callable[[str], str]:
    """Which time zone a tenant lives in, by the policy in force; UTC for all where there is none."""
    if not DataDirectory(directory).policy.exists():
        return lambda _: "UTC"
    policy = policy_in_force(directory)
    return lambda tenant: zone_of(policy, tenant)
