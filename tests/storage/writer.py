"""A gateway's worth of journal, to be killed: `python -m tests.storage.writer DIR SEED`.

Keeps some requests open, ends them in no order, flushes, and only then tells on stdout that they were answered, as the
gateway lets the last byte go only after the flush. Lines: `READY seconds interrupted`, `open ID`, `done ID`.
"""

import random
import sys
from pathlib import Path

from plimsoll.storage.journal import Journal
from tests.storage.rows import NOVEMBER, POLICY, settle

SEGMENT_BYTES = 64 * 1024


def run(directory: Path, seed: int) -> None:
    """Write until killed."""
    dice = random.Random(seed)
    journal = Journal.open(directory, segment_bytes=SEGMENT_BYTES)
    journal.policy(NOVEMBER, POLICY)
    journal.flush()
    say(f"READY {journal.recovered.seconds:.6f} {len(journal.recovered.interrupted)}")
    number = journal.next_request_id
    waiting: list[int] = []
    while True:
        opened = list(range(number, number + dice.randint(0, 4)))
        number += len(opened)
        for each in opened:
            journal.opened(each, "acme", "gold", NOVEMBER)
        waiting += opened
        dice.shuffle(waiting)
        ended = [waiting.pop() for _ in range(dice.randint(0, max(0, len(waiting) - 10)))]
        for each in ended:
            journal.settle(settle(each, bad=each % 7 == 0))
        journal.flush()
        lines = [f"open {each}" for each in opened] + [f"done {each}" for each in ended]
        if lines:
            say("\n".join(lines))


def say(text: str) -> None:
    """Tell whoever reads, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
