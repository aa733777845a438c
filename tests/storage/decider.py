"""A gateway that takes decisions from its inbox, to be killed: `python -m tests.storage.decider DIR`."""

import sys
import time
from pathlib import Path

from plimsoll.gateway.bookkeeping import Bookkeeping
from plimsoll.storage.inbox import Inbox
from plimsoll.storage.journal import Journal
from tests.storage.rows import NOVEMBER, POLICY, settle


def run(directory: Path) -> None:
    """Look, settle something in between, until killed."""
    journal = Journal.open(directory, segment_bytes=64 * 1024)
    journal.policy(NOVEMBER, POLICY)
    journal.flush()
    bookkeeping = Bookkeeping(Inbox(directory), journal, time.time, lambda _: None)
    sys.stdout.write("READY\n")
    sys.stdout.flush()
    number = journal.next_request_id
    while True:
        bookkeeping.look()
        journal.settle(settle(number, bad=number % 3 == 0))
        journal.flush()
        number += 1
        time.sleep(0.001)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
