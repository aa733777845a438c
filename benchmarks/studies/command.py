"""What all studies share on the command line: seeds, duration, where results are kept so that a study can go on."""

import argparse
import time
from pathlib import Path
from typing import Final

from benchmarks.studies.run import Kept

DEFAULT_OUT: Final = Path("studies")


class Command:
    """What was asked for. Seeds for tuning begin at 1000, so that nobody is judged by what it was tuned on."""

    def __init__(self, options: argparse.Namespace, study: str) -> None:
        self.seeds = range(options.seeds)
        self.duration: float = options.duration
        self.all_arms: bool = options.all
        self.kept = Kept(options.out / f"{study}.jsonl")
        self._began = time.process_time()

    def head(self, title: str) -> None:
        """What the table shows."""
        print(f"{title}; {len(self.seeds)} seeds of {self.duration:g} s, mean (95 % interval over seeds)")

    def foot(self) -> None:
        """What it took."""
        print(f"{time.process_time() - self._began:.0f} CPU s now")


def command(about: str | None, study: str, *, duration: float, seeds: int = 10) -> Command:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many seeds, from 0 (default: %(default)s)")
    parser.add_argument("--duration", type=float, default=duration, help="simulated s a run (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_OUT, help="results, a line a run: a study goes on from them"
    )
    parser.add_argument("--all", action="store_true", help="every rival, where a study has few by default")
    return Command(parser.parse_args(), study)
