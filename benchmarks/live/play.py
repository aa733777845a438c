"""One run of one rival: what is played, and what of it is compared."""

from collections.abc import Sequence
from math import inf
from pathlib import Path

from msgspec import Struct

from benchmarks.live.health import Health
from benchmarks.live.stage import Stage, is_gold
from plimsoll.storage.tracerow import TraceRow


class Times(Struct, frozen=True):
    """Of gold's requests that count, in order of arrival: s to the first token, inf where none came."""

    ttft: tuple[float, ...]
    gateway: tuple[float, ...] = ()  # the same as the gateway's own clock saw it
    health: Health | None = None  # of a live run
    wall: float = 0.0  # s


class Play(Struct, frozen=True):
    """What is run: the stage, a policy file, a trace file and its rows."""

    stage: Stage
    policy: Path
    trace: Path
    rows: Sequence[TraceRow]
    urls: tuple[str, ...]

    def counted(self) -> list[int]:
        """Rows of gold that arrive after the warm-up."""
        since = self.stage.warm_up
        return [index for index, row in enumerate(self.rows) if is_gold(row.tenant) and row.at >= since]

    def check(self, num: int, wanted: int) -> None:
        """Raises RuntimeError where not every request of gold is told of: figures of some would flatter."""
        if num != wanted:
            raise RuntimeError(f"{self.policy}: {num} of {wanted} requests of gold are told")


def or_never(ttft: float | None) -> float:
    """A time, or inf for what never came."""
    return inf if ttft is None else ttft
