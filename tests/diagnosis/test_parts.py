"""Where time went, against a stop watch in the step-by-step engine; and parts that always sum to the whole."""

from math import isclose

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.timeparts import COLUMN, Part
from plimsoll.diagnosis.visits import Floats, visits_of
from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from tests.analytics.records import START, record
from tests.diagnosis.truth import WatchedReplica, errors, requests_of, visits_of_requests
from tests.sim.reference import Request


def engine(name: str, **more: object) -> EngineProfile:
    return msgspec.structs.replace(profiles.load(name), prefix_caching=False, **more)


def history(seed: int, num: int, rate: float, long_share: float = 0.0) -> list[Request]:
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(1.0 / rate, num))
    prompts = np.clip(rng.lognormal(6.2, 0.9, num), 1, 8000)
    long = rng.random(num) < long_share
    prompts[long] = rng.integers(8000, 20000, int(long.sum()))
    return requests_of(at, prompts, np.clip(rng.lognormal(5.0, 0.7, num), 1, 800))


@pytest.mark.parametrize(
    ("profile", "rate", "long_share"),
    [
        (engine("rtxpro6000-llama8b"), 5.0, 0.0),
        (engine("h100-llama70b-tp4"), 5.0, 0.05),  # long prompts beside short ones
        (engine("rtxpro6000-llama8b", num_blocks=3000), 8.0, 0.0),  # waits for blocks, preemptions
        (engine("tiny-llamacpp"), 3.0, 0.0),  # waits for a place
    ],
    ids=["calm", "long prompts", "few blocks", "few places"],
)
def test_parts_are_those_of_the_stop_watch(profile: EngineProfile, rate: float, long_share: float) -> None:
    requests = history(1, 180, rate, long_share)
    replica = WatchedReplica(profile)
    replica.run(requests)
    visits = visits_of_requests(requests, ["acme"] * len(requests))
    found = time_parts(visits, {"chat": profile})
    true = np.array([replica.parts(requests[i]) for i in visits.request_id])
    assert np.allclose(true.sum(axis=1), found.total, atol=1e-5), "the stop watch itself does not add up"
    for part, (num, error) in errors(found.seconds, true, found.total).items():
        if part is not Part.UNKNOWN:
            assert error <= 0.05, f"{part}: median error {error:.3f} of E2E over {num} requests"
    unknown = found.seconds[:, COLUMN[Part.UNKNOWN]] / found.total
    assert unknown.mean() <= 0.1


def test_a_slower_engine_than_the_model_shows_as_pace_not_as_unknown() -> None:
    """The engine takes 1.6 times what the profile says: its decoding is that much longer, and nothing is unknown."""
    model = engine("rtxpro6000-llama8b")
    requests = history(2, 150, 3.0)
    WatchedReplica(msgspec.structs.replace(model, host_factor=1.6 * model.host_factor)).run(requests)
    found = time_parts(visits_of_requests(requests, ["acme"] * len(requests)), {"chat": model})
    assert float(np.median(found.pace)) == pytest.approx(1.6, rel=0.05)
    assert float((found.seconds[:, COLUMN[Part.UNKNOWN]] / found.total).mean()) < 0.05


def test_without_a_profile_the_engine_is_unknown_and_the_rest_is_measured() -> None:
    found = time_parts(
        visits_of([record(1, 0.0, ttft=0.5, client_stall=0.25, upstream_time=2.0, dispatched_at=START + 0.1)]), {}
    )
    seconds = {part: float(found.seconds[0, COLUMN[part]]) for part in Part}
    assert not found.modelled[0]
    assert seconds[Part.UPSTREAM] == 2.0
    assert seconds[Part.CLIENT] == 0.25
    assert seconds[Part.UNKNOWN] > 0.0
    assert isclose(sum(seconds.values()), float(found.total[0]))


def test_what_plugins_took_is_neither_queue_nor_engine() -> None:
    asked = record(1, 0.0, ttft=1.5, dispatched_at=START + 1.0, plugin_time=0.75, plugins="guard:allow")
    refused = record(
        2, 5.0, ttft=None, lasted=0.5, outcome=Outcome.REJECTED, reason=Reason.PLUGIN_DENIED, plugin_time=0.5
    )
    found = time_parts(visits_of([asked, refused]), {})
    plugins, queue = (found.seconds[:, COLUMN[part]].tolist() for part in (Part.PLUGINS, Part.GATEWAY_QUEUE))
    assert (plugins, queue) == ([0.75, 0.5], [0.25, 0.0])


TIMES = st.none() | st.floats(0.0, 30.0)


@st.composite
def rows(draw: st.DrawFn) -> list[Record]:
    made = []
    for i in range(draw(st.integers(1, 12))):
        after, waited, lasted = draw(st.floats(0.0, 100.0)), draw(TIMES), draw(st.floats(0.0, 60.0))
        outcome = draw(
            st.sampled_from([Outcome.COMPLETED, Outcome.ABORTED, Outcome.FAILED, Outcome.EXPIRED, Outcome.INTERRUPTED])
        )
        ttft = None if outcome is Outcome.EXPIRED or waited is None else draw(st.none() | st.floats(waited, waited + 9))
        row = record(
            i + 1,
            after,
            ttft=ttft,
            lasted=lasted,
            outcome=outcome,
            reason=Reason.DONE if outcome is Outcome.COMPLETED else Reason.CLIENT_LEFT,
            dispatched_at=None if waited is None else START + after + waited,
        )
        row = msgspec.structs.replace(
            row,
            client_stall=draw(st.floats(0.0, 90.0)),
            upstream_time=draw(TIMES),
            plugin_time=draw(TIMES),
            streaming=draw(st.booleans()),
            prompt_tokens=draw(st.integers(0, 200_000)),
            cached_tokens=draw(st.none() | st.integers(0, 300_000)),
            output_tokens=draw(st.integers(0, 5000)),
        )
        made.append(row)
    return made


@settings(max_examples=50, deadline=None)
@given(rows())
def test_parts_sum_to_the_whole_whatever_the_log_says(records: list[Record]) -> None:
    visits = visits_of(records)
    found = time_parts(visits, {pool: engine("rtxpro6000-llama8b") for pool in visits.pool.names})
    sums: Floats = found.seconds.sum(axis=1)
    assert np.isfinite(found.seconds).all()
    assert (found.seconds >= -1e-9).all()
    assert np.allclose(sums, found.total, rtol=1e-6, atol=1e-5)
    assert (found.crowded >= -1e-9).all()
