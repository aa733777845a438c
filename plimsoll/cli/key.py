"""`plimsoll key`: a fresh API key for a tenant and the digest that goes into the policy."""

import sys
from hashlib import sha256
from secrets import token_urlsafe
from typing import Annotated

from cyclopts import Parameter

from plimsoll.cli.options import Json
from plimsoll.cli.output import print_json
from plimsoll.errors import UsageError


def key(*, digest: Annotated[bool, Parameter(negative="")] = False, json: Json = False) -> None:
    """Make an API key: give the first line to the tenant, put the second into its `keys`. Neither is kept here.

    Parameters
    ----------
    digest
        Make no key: read one from standard input (so that it stays out of the shell's history), print its digest.
    """
    if digest:
        given = sys.stdin.readline().strip()
        if not given:
            raise UsageError("no key on standard input: plimsoll key --digest < file")
        if not (given.isascii() and given.isprintable()) or " " in given:
            raise UsageError("a key has visible ASCII characters only: it is sent in a header")
        told = {"digest": digest_of(given)}
    else:
        fresh = f"pl-{token_urlsafe(32)}"
        told = {"key": fresh, "digest": digest_of(fresh)}
    if json:
        print_json(told)
    else:
        print("\n".join(told.values()))  # noqa: T201 - the command's output


def digest_of(secret: str) -> str:
    """As `keys` wants it; a key of 256 random bits needs no salt and no slow hash."""
    return f"sha256:{sha256(secret.encode()).hexdigest()}"
