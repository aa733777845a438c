"""How far simulations are, on a terminal's stderr: simulated date, speed, time to come."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from zoneinfo import ZoneInfo

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from plimsoll.cli.output import Terminal
from plimsoll.units import format_duration


class SimProgress:
    """Adds up what the runs tell. `length` is the simulated s of each of `num` runs."""

    def __init__(  # noqa: PLR0917 - what is shown of them
        self, progress: Progress, num: int, length: float, start_at: float, zone: str, about: str
    ) -> None:
        self._progress = progress
        self._length = length
        self._start_at = start_at
        self._zone = ZoneInfo(zone)
        self._at = [0.0] * num
        self._num = [0] * num
        self._about = about
        self._began = time.monotonic()
        self._told_at = 0.0
        self.tell_lines = False
        """Whether each look is a line of JSON on stderr as well, for another program."""
        self._bar = progress.add_task("simulating", total=max(length * num, 1e-9))

    def told(self, place: int, at: float, num: int) -> None:
        """A run has come so far."""
        self._at[place], self._num[place] = min(at, self._length), num
        self._show(at)

    def done(self, place: int) -> None:
        """A run has ended."""
        self._at[place] = self._length
        self._show(self._length)

    def _show(self, at: float) -> None:
        spent = max(time.monotonic() - self._began, 1e-3)
        moment = datetime.fromtimestamp(self._start_at + at, self._zone)
        text = (
            f"{self._about}{moment:%a %d %b %H:%M} · {sum(self._num):,} requests · {sum(self._num) / spent:,.0f}/s · "
            f"{format_duration(sum(self._at) / spent, 2)} a second"
        )
        self._progress.update(self._bar, completed=sum(self._at), description=text)
        if self.tell_lines and time.monotonic() > self._told_at + 0.25:
            self._told_at = time.monotonic()
            share = sum(self._at) / max(self._length * len(self._at), 1e-9)
            sys.stderr.write(f'{{"progress":{share:.4f},"requests":{sum(self._num)}}}\n')
            sys.stderr.flush()


@contextmanager
def sim_progress(num: int, length: float, start_at: float, zone: str, about: str = "") -> Iterator[SimProgress]:
    """Nothing is shown where stderr is no terminal."""
    console = Terminal(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield SimProgress(progress, num, length, start_at, zone, about)
