"""Does the simulator put policies in the order in which they come out live, and do its P99s hold?

One trace (gold and silver at 80 % of their shares, a neighbour of bronze at its share or at four times it, with long
prompts) is simulated and played to a running gateway, under each rival by the same policy file:

    python -m benchmarks.liveorder --out live                     three emulated replicas, 14 live runs of about 55 s
    python -m benchmarks.liveorder --engines llama --out live     two llama.cpp servers, calibrated first
    python -m benchmarks.liveorder --arms plimsoll,fcfs --duration 30

What is known is not run again, so a broken table goes on; runs of a starved machine are marked, left out of the
verdict, and made anew the next time. llama.cpp needs PLIMSOLL_TOOLS (the folder that holds tiny-engine).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.live.fitting import calibrated
from benchmarks.live.session import Session
from benchmarks.live.stage import STAGES, lasting
from benchmarks.live.table import lines, values
from benchmarks.studies.arms import ARMS, Arm
from plimsoll.errors import UsageError


def main() -> None:
    options = _options()
    try:
        _run(options)
    except UsageError as error:
        sys.exit(f"liveorder: {error}")


def _run(options: argparse.Namespace) -> None:
    stage = lasting(STAGES[options.engines], options.duration)
    if stage.engine == "llamacpp":
        stage = calibrated(stage, options.out, _tell)
    session = Session(stage, options.out, _tell, anyway=options.count_starved)
    rows = session.rows(options.arms, range(options.seeds), with_live=not options.simulate_only)
    print(msgspec.json.encode(values(rows)).decode() if options.json else "\n".join(lines(rows, stage)))


def arms_named(text: str) -> Sequence[Arm]:
    """Rivals whose names begin like those given; all for "". Raises argparse's error where nobody's does."""
    wanted = [name.strip().lower() for name in text.split(",") if name.strip()]
    found = [arm for arm in ARMS if not wanted or any(arm.name.lower().startswith(name) for name in wanted)]
    lost = [name for name in wanted if not any(arm.name.lower().startswith(name) for arm in ARMS)]
    if lost:
        known = "; ".join(arm.name for arm in ARMS)
        raise argparse.ArgumentTypeError(f"nobody is named {', '.join(lost)}; known: {known}")
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", choices=sorted(STAGES), default="emulated")
    parser.add_argument("--arms", type=arms_named, default=list(ARMS), help="names or their beginnings, with commas")
    parser.add_argument("--duration", type=float, default=0.0, help="s of arrivals a run (default: the stage's own)")
    parser.add_argument("--seeds", type=int, default=1, help="how many traces, from seed 0 (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("live"), help="results and files (default: %(default)s)")
    parser.add_argument("--simulate-only", action="store_true", help="no live runs: what to expect")
    parser.add_argument("--count-starved", action="store_true", help="take runs of a starved machine as they are")
    parser.add_argument("--json", action="store_true", help="print plain values")
    options = parser.parse_args()
    if options.seeds < 1 or not 0.0 <= options.duration < 3600.0:
        parser.error("--seeds must be at least 1, --duration from 0 (the stage's own) to 3600 s")
    return options


def _tell(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main()
