"""What was found wrong in a document of another tool, and what of it was lost."""

from json import dumps

from plimsoll.errors import Fault
from plimsoll.policy.slospec import Loss


class Account:
    """What was found wrong in one source, and what of it was lost."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.losses: list[Loss] = []
        self.num_values = 0

    def fault(self, path: str, line: int, message: str, hint: str = "") -> None:
        """Note something wrong."""
        self.faults.append(Fault(path or "(document)", message, line, hint))

    def lose(self, path: str, line: int, reason: str) -> None:
        """Note that everything below that path is not carried over."""
        self.losses.append(Loss(self.source, path or "(document)", line, reason))


def join(path: str, key: str) -> str:
    """The path of a key; keys that are no plain words are quoted."""
    if not key.replace("-", "").replace("_", "").isalnum():
        return f"{path}[{dumps(key)}]"
    return f"{path}.{key}" if path else key
