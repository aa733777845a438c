"""Queueing theory: configured as a single server the replica is Lindley's recursion, and M/M/1 by its mean wait."""

import numpy as np
import pytest
from numpy.typing import NDArray

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, Job
from plimsoll.sim.randomness import stream
from plimsoll.sim.replica import Replica

STEP = 1e-3  # s; a job's service is its output tokens times this
MEAN = 1000.0  # output tokens
SERVER = EngineProfile(
    name="server",
    source="a single server with a constant step",
    decode=StepCoefficients(a=STEP),
    mixed=StepCoefficients(a=STEP),
    max_num_seqs=1,
    num_blocks=100_000,
    prefix_caching=False,
)


def waits(
    utilisation: float, num: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Waits before service by the replica; the arrivals and services that made them."""
    draws = stream(seed, "queueing")
    arrivals = np.cumsum(draws.exponential(MEAN * STEP / utilisation, num))
    outputs = np.maximum(1, np.rint(draws.exponential(MEAN, num))).astype(int)
    replica, found = Replica(SERVER), np.zeros(num)
    for number, at in enumerate(arrivals.tolist()):
        note(replica, at, found, arrivals)
        replica.submit(at, Job(number, 1, int(outputs[number])))
    note(replica, float("inf"), found, arrivals)
    return found, arrivals, outputs * STEP


def note(replica: Replica, until: float, found: NDArray[np.float64], arrivals: NDArray[np.float64]) -> None:
    while (at := replica.next_at()) <= until and at < float("inf"):
        for output in replica.advance(at):
            if output.kind == FIRST_TOKEN or (output.kind == FINISHED and output.job.output_tokens == 1):
                found[output.job.id] = output.job.first_token_at - STEP - arrivals[output.job.id]
    if until < float("inf"):
        replica.advance(until)


def test_a_single_server_is_lindleys_recursion() -> None:
    found, arrivals, services = waits(0.8, 2000, 1)
    wait = 0.0
    for number in range(len(found) - 1):
        assert found[number] == pytest.approx(wait, abs=1e-6)
        wait = max(0.0, wait + services[number] - (arrivals[number + 1] - arrivals[number]))


@pytest.mark.long
@pytest.mark.parametrize("utilisation", [0.5, 0.7, 0.9])
def test_mean_wait_of_mm1(utilisation: float) -> None:
    """ρ ÷ (1 − ρ) × mean service, with the mean of services and gaps as control variates for the sample's own load."""
    found, arrivals, services = waits(utilisation, 200_000, 2)
    load = services.mean() / np.diff(arrivals).mean()
    second = (services**2).mean() / services.mean() / 2  # Pollaczek–Khinchine by the sample's own moments
    assert found.mean() == pytest.approx(load / (1 - load) * second, rel=0.02 if utilisation < 0.9 else 0.05)
