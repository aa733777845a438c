"""Names of others as names of ours: fit for files, labels and accounts, as many of them as are bounded."""

import re
from typing import Final

MOST: Final = 10_000
"""Tenants with a name of their own; those that come after them in the files are one, and counted."""
OTHERS: Final = "other-tenants"
UNKNOWN: Final = "unknown"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")
_TAKEN: Final = frozenset({"pool", "world"})  # accounts of the ledger


class Names:
    """One kind of names. The same text has the same name always; texts that would share one are told apart."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._of: dict[str, str] = {}
        self._used: set[str] = set(_TAKEN)
        self.num_folded = 0

    def of(self, text: str) -> str:
        """The name of a text; "" has the name `unknown`."""
        known = self._of.get(text)
        if known is not None:
            return known
        if len(self._of) >= self._most:
            self.num_folded += 1
            return OTHERS
        plain = _UNFIT.sub("-", text).lstrip("._-")[:58] or UNKNOWN
        name, number = plain, 1
        while name in self._used:
            number += 1
            name = f"{plain}-{number}"
        self._used.add(name)
        self._of[text] = name
        return name
