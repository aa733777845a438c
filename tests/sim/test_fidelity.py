"""The engine model against real vLLM 0.19, per request, with one host factor for both machines."""

import csv
import os

import pytest

from benchmarks import fidelity, moe_profile
from plimsoll.engine import profiles

MAPE = 0.02  # of E2E, by request


@pytest.fixture(autouse=True)
def _data() -> None:
    if not os.environ.get("PLIMSOLL_DATA"):
        if os.environ.get("CI"):
            pytest.fail("PLIMSOLL_DATA is not set")
        pytest.skip("PLIMSOLL_DATA is not set")


@pytest.mark.parametrize(("run", "profile"), fidelity.DENSE.items())
def test_dense_runs_are_foretold(run: str, profile: str) -> None:
    errors = fidelity.errors(run, profile)
    for name, bound in fidelity.WITHIN.items():
        assert abs(errors[name]) < bound, name
    assert errors["e2e_mape"] < MAPE


def test_the_moe_run_is_foretold() -> None:
    ((run, profile),) = fidelity.MOE.items()
    errors = fidelity.errors(run, profile)
    for name, bound in fidelity.WITHIN_MOE.items():
        assert abs(errors[name]) < bound, name


def test_the_shipped_moe_times_are_those_of_the_kernel_tables() -> None:
    kernels, profile = moe_profile.Kernels(), profiles.load("rtxpro6000-qwen30b-moe")
    assert profile.tables
    assert profile.tables.decode
    for num_seqs, row in zip(moe_profile.NUM_SEQS, profile.tables.decode.seconds, strict=True):
        expected = [kernels.decode_step(num_seqs, context) for context in moe_profile.CONTEXT]
        assert row == pytest.approx(expected, abs=1e-5)


def test_the_host_factor_is_one_for_all() -> None:
    assert (
        len(
            {
                profiles.load(name).host_factor
                for name in [*fidelity.DENSE.values(), *fidelity.MOE.values(), fidelity.UNSEEN[1]]
            }
        )
        == 1
    )


def test_the_shipped_prediction_is_what_the_model_says() -> None:
    asked = fidelity.recorded(fidelity.UNSEEN[0])
    with fidelity.PREDICTION.open() as file:
        shipped = list(csv.DictReader(file))
    ours = fidelity.predicted(asked, fidelity.UNSEEN[1])
    assert [row["request"] for row in shipped] == [request.name for request in asked]
    for row, value in zip(shipped, ours, strict=True):
        assert float(row["e2e_s"]) == pytest.approx(value.e2e, abs=1e-5)
