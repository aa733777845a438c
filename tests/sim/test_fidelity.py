"""The engine model against real vLLM 0.19, per request, with one host factor for both machines."""

import csv
import os

import pytest

from benchmarks import fidelity
from plimsoll.engine import profiles

WITHIN = {"e2e_mean": 0.01, "e2e_p99": 0.015, "tpot_mean": 0.01, "ttft_mean": 0.03, "e2e_mape": 0.02}


@pytest.fixture(autouse=True)
def _data() -> None:
    if not os.environ.get("PLIMSOLL_DATA"):
        if os.environ.get("CI"):
            pytest.fail("PLIMSOLL_DATA is not set")
        pytest.skip("PLIMSOLL_DATA is not set")


@pytest.mark.parametrize(("run", "profile"), fidelity.RUNS.items())
def test_dense_runs_are_foretold(run: str, profile: str) -> None:
    errors = fidelity.errors(run, profile)
    for name, bound in WITHIN.items():
        assert abs(errors[name]) < bound, name


def test_the_host_factor_is_one_for_all() -> None:
    assert len({profiles.load(name).host_factor for name in [*fidelity.RUNS.values(), fidelity.UNSEEN[1]]}) == 1


def test_the_shipped_prediction_is_what_the_model_says() -> None:
    asked = fidelity.recorded(fidelity.UNSEEN[0])
    with fidelity.PREDICTION.open() as file:
        shipped = list(csv.DictReader(file))
    ours = fidelity.predicted(asked, fidelity.UNSEEN[1])
    assert [row["request"] for row in shipped] == [request.name for request in asked]
    for row, value in zip(shipped, ours, strict=True):
        assert float(row["e2e_s"]) == pytest.approx(value.e2e, abs=1e-5)
