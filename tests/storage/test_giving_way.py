"""The projector lets the gateway go first, by niceness and by scheduling class."""

import os
import subprocess
import sys

import pytest

from plimsoll.storage.projector import NICENESS, give_way


@pytest.mark.skipif(not hasattr(os, "sched_setscheduler"), reason="scheduling classes are read on Linux only")
def test_it_leaves_the_class_that_it_inherited() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        give_way(child.pid)
        assert os.sched_getscheduler(child.pid) == os.SCHED_BATCH
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == NICENESS
        child.communicate(b"")
