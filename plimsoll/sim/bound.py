"""Names of the uncompiled world, bound once: compiled code would look each up by its text whenever it is used."""

from bisect import bisect_right
from heapq import heappop, heappush
from typing import Final

from msgspec.structs import astuple

from plimsoll.governor.decisions import Dispatch, Enqueue, RunPlugins, Settle
from plimsoll.governor.events import FirstToken, RequestArrived, RequestFinished
from plimsoll.slo.measured import UNCOUNTED as _UNCOUNTED
from plimsoll.slo.measured import ItlSketch, Timing
from plimsoll.slo.outcome import Outcome, Reason

BISECT_RIGHT: Final = bisect_right
PUSH: Final = heappush
POP: Final = heappop
ASTUPLE: Final = astuple
DISPATCH: Final = Dispatch
ENQUEUE: Final = Enqueue
SETTLE: Final = Settle
RUN_PLUGINS: Final = RunPlugins
FIRST_TOKEN: Final = FirstToken
REQUEST_ARRIVED: Final = RequestArrived
REQUEST_FINISHED: Final = RequestFinished
ITL_SKETCH: Final = ItlSketch
TIMING: Final = Timing
UNCOUNTED: Final = _UNCOUNTED
COMPLETED: Final = Outcome.COMPLETED
DONE: Final = Reason.DONE
HEDGED: Final = Reason.HEDGED
