"""Queueing theory: configured as k servers, the replica is an M/M/k or M/G/1 queue, and waits as long as one.

The mean wait of a sample is a poor estimate of the expected one (at 0.95 the relative error of 100,000 arrivals is some
10 %), so the same arrivals and services also go through the textbook recursion of such a queue, whose expected
wait is known exactly: it is the control variate, with a coefficient of 1. What remains is what the replica does
differently, and that is what this tests.
"""

from dataclasses import dataclass
from heapq import heapreplace
from math import factorial, inf, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, Job
from plimsoll.sim.randomness import stream
from plimsoll.sim.replica import Replica

STEP = 1e-5  # s; a job's service is its output tokens times this
MEAN = 100_000.0  # output tokens: 1 s
WITHIN = 0.02
Floats = NDArray[np.float64]


@dataclass
class Queue:
    """Arrivals and services of one sample; the waits that the replica made of them."""

    arrivals: Floats
    services: Floats
    waits: Floats


def server(num_servers: int) -> EngineProfile:
    return EngineProfile(
        name="server",
        source="as many servers as sequences, each at a constant step",
        decode=StepCoefficients(a=STEP),
        mixed=StepCoefficients(a=STEP),
        max_num_seqs=num_servers,
        num_blocks=1 << 40,
        max_context=1 << 40,
        prefix_caching=False,
    )


def tokens(kind: str, draws: np.random.Generator, num: int) -> Floats:
    """Services in tokens, of mean MEAN: exponential, constant, or two kinds of jobs (squared variation about 4)."""
    if kind == "M":
        found = draws.exponential(MEAN, num)
    elif kind == "D":
        found = np.full(num, MEAN)
    else:
        found = draws.exponential(np.where(draws.random(num) < 0.9, MEAN / 2, MEAN * 5.5), num)
    return np.maximum(1.0, np.rint(found))


def sample(kind: str, num_servers: int, utilisation: float, num: int, seed: int) -> Queue:
    draws = stream(seed, "queueing", kind, num_servers)
    arrivals = np.cumsum(draws.exponential(MEAN * STEP / (utilisation * num_servers), num))
    outputs = tokens(kind, draws, num)
    replica, found = Replica(server(num_servers)), np.zeros(num)
    for number, at in enumerate(arrivals.tolist()):
        note(replica, at, found, arrivals)
        replica.submit(at, Job(number, 1, int(outputs[number])))
    note(replica, inf, found, arrivals)
    return Queue(arrivals, outputs * STEP, found)


def note(replica: Replica, until: float, found: Floats, arrivals: Floats) -> None:
    while (at := replica.next_at()) <= until and at < inf:
        for output in replica.advance(at):
            if output.kind == FIRST_TOKEN or (output.kind == FINISHED and output.job.output_tokens == 1):
                found[output.job.id] = output.job.first_token_at - STEP - arrivals[output.job.id]
    if until < inf:
        replica.advance(until)


def recursion(queue: Queue, num_servers: int) -> Floats:
    """Waits in a first-come queue of k servers: each takes the server that is free first (Kiefer and Wolfowitz)."""
    free, found = [0.0] * num_servers, np.zeros(len(queue.arrivals))
    for number, (at, service) in enumerate(zip(queue.arrivals.tolist(), queue.services.tolist(), strict=True)):
        start = max(at, free[0])
        heapreplace(free, start + service)
        found[number] = start - at
    return found


def expected(kind: str, num_servers: int, utilisation: float) -> float:
    """Mean wait in s: Erlang C for exponential services, Pollaczek–Khinchine for one server."""
    if kind == "M":
        offered = utilisation * num_servers
        last = offered**num_servers / factorial(num_servers) / (1 - utilisation)
        busy = last / (sum(offered**k / factorial(k) for k in range(num_servers)) + last)
        return busy / (num_servers * (1 - utilisation)) * MEAN * STEP
    squared_variation = {"D": 0.0, "H": 0.9 * 2 * 0.25 + 0.1 * 2 * 30.25 - 1}[kind]
    return utilisation / (1 - utilisation) * (1 + squared_variation) / 2 * MEAN * STEP


def controlled(kind: str, num_servers: int, utilisation: float, num: int, seed: int = 2) -> float:
    """The replica's mean wait, with the recursion as control variate; relative to the formula, less 1."""
    queue, theory = sample(kind, num_servers, utilisation, num, seed), expected(kind, num_servers, utilisation)
    textbook = recursion(queue, num_servers)
    return float((queue.waits.mean() - textbook.mean() + theory) / theory - 1)


CASES = [("M", 1), ("M", 4), ("M", 16), ("D", 1), ("H", 1)]


@pytest.mark.parametrize("utilisation", [0.5, 0.7, 0.9])
@pytest.mark.parametrize(("kind", "num_servers"), CASES)
def test_mean_waits_are_those_of_theory(kind: str, num_servers: int, utilisation: float) -> None:
    assert abs(controlled(kind, num_servers, utilisation, 4000)) < WITHIN


@pytest.mark.long
@pytest.mark.parametrize("utilisation", [0.5, 0.7, 0.9, 0.95])
@pytest.mark.parametrize(("kind", "num_servers"), CASES)
def test_mean_waits_are_those_of_theory_in_long_runs(kind: str, num_servers: int, utilisation: float) -> None:
    error = controlled(kind, num_servers, utilisation, 100_000)
    print(f"{kind}/{num_servers} at {utilisation}: {error:+.3%}")  # noqa: T201 - figures for who runs it
    assert abs(error) < WITHIN


def test_the_textbook_recursion_is_itself_what_the_formula_says() -> None:
    """Uncontrolled, by batch means: the formula lies within four standard errors of the sample."""
    for kind, num_servers in CASES:
        draws = stream(5, "textbook", kind, num_servers)
        num, batches = 120_000, 30
        arrivals = np.cumsum(draws.exponential(MEAN * STEP / (0.6 * num_servers), num))
        queue = Queue(arrivals, tokens(kind, draws, num) * STEP, np.zeros(num))
        means = recursion(queue, num_servers).reshape(batches, -1).mean(axis=1)
        error = means.std(ddof=1) / sqrt(batches)
        assert abs(means.mean() - expected(kind, num_servers, 0.6)) < 4 * error


def test_a_single_server_is_lindleys_recursion() -> None:
    queue = sample("M", 1, 0.8, 2000, 1)
    assert queue.waits == pytest.approx(recursion(queue, 1), abs=1e-6)


def test_theory_by_hand() -> None:
    assert expected("M", 1, 0.9) == pytest.approx(9.0)
    assert expected("D", 1, 0.9) == pytest.approx(4.5)
    assert expected("M", 2, 0.5) == pytest.approx(1 / 3)
