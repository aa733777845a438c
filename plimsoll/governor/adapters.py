"""Which LoRA adapters a replica has loaded: those that it says it runs, and those last sent there, up to its slots."""

from typing import Final

UNKNOWN_SLOTS: Final = 8  # adapters remembered where neither engine nor profile says how many it holds


class LoadedAdapters:
    """One replica's, the longest unused first."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._names: dict[str, None] = {}

    def holds(self, name: str) -> bool:
        """Whether it should be there."""
        return name in self._names

    def sent(self, name: str) -> None:
        """A request for it goes there: it is loaded now, if need be in the place of the one unused for longest."""
        self._names.pop(name, None)
        self._names[name] = None
        while len(self._names) > self.slots:
            del self._names[next(iter(self._names))]

    def told(self, running: tuple[str, ...] | None, slots: int | None) -> None:
        """The replica's own word; None: it did not say."""
        if slots:
            self.slots = slots
        for name in running or ():
            self.sent(name)

    def forget(self) -> None:
        """A new process holds none."""
        self._names.clear()

    def names(self) -> tuple[str, ...]:
        """All of them, the longest unused first."""
        return tuple(self._names)
