"""A noisy neighbour, live: what gold sees under the default policy and under FCFS, beside what the simulator said.

A cut-down `python -m benchmarks.liveorder`: three emulated engines, the gateway and a replay of one trace.
"""

import sys
from pathlib import Path

import pytest

from benchmarks.live.ranking import agreement
from benchmarks.live.session import BY_LOAD, Session
from benchmarks.live.stage import EMULATED, FAIR, NOISY, lasting
from benchmarks.live.table import lines, worlds
from benchmarks.studies.arms import PLIMSOLL

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(600)]
DURATION = 30.0  # s of arrivals: some 700 requests of gold that count, enough for an interval at p99


def test_gold_is_kept_from_its_neighbour_as_the_simulator_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage, told = lasting(EMULATED, DURATION), list[str]()
    rows = Session(stage, tmp_path, told.append, anyway=True, shakes=3).rows([PLIMSOLL, BY_LOAD], [0])
    table = "\n".join(lines(rows, stage))
    with capsys.disabled():
        sys.stdout.write(f"\n{table}\n")
    assert agreement(*worlds(rows, NOISY)).same is True, table
    fair, noisy = worlds(rows, FAIR)[1], worlds(rows, NOISY)[1]
    ratios = {name: noisy[name].value / fair[name].value for name in noisy}
    assert ratios[PLIMSOLL.name] < 1.25, table  # live clocks jitter; the exact pair is the simulator's
    assert ratios[BY_LOAD.name] > 3.0, table  # it grows as long as the noise lasts
    assert noisy[PLIMSOLL.name].value < stage.gold_ttft, "gold's objective holds beside the neighbour"
