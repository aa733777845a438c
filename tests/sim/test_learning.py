"""Learning: traffic drawn from what was learnt has the rate by span, the lengths and the burstiness of its source."""

import os
from pathlib import Path

import numpy as np
import pytest

from plimsoll.cli.workload import text_of
from plimsoll.sim.learning import behaviour, correlation_of, learn
from plimsoll.sim.likeness import as_row, likeness
from plimsoll.sim.randomness import stream
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.storage import traces
from plimsoll.storage.tracerow import TraceRow

DATA = Path(os.environ.get("PLIMSOLL_DATA", "/nowhere"))


def rows_of(load: Workload, seed: int = 3) -> list[TraceRow]:
    return [TraceRow(a.at, a.prompt_tokens, a.output_tokens, tenant=a.tenant) for a in load.arrivals(seed)]


SHAPE = tuple(0.3 + 1.4 * (8 <= hour < 18) for hour in range(24))


@pytest.mark.parametrize("burstiness", [1.0, 5.0])
def test_a_day_is_learnt_and_drawn_again(burstiness: float) -> None:
    lengths = {"prompt": Lengths(600, 1.1, 16_000), "output": Lengths(150, 0.8, 4000)}
    profile = TenantProfile("acme", 0.5, daily=SHAPE, burstiness=burstiness, correlation=0.5, **lengths)  # type: ignore[arg-type]
    source = rows_of(Workload((profile, TenantProfile("bolt", 0.2)), 86_400.0, "m"))
    found = learn(source, 86_400.0)
    (alike, _) = likeness(found, source, parse(text_of(found, "log", "m"), "learnt"), 1)
    assert alike.rate_error < 2.0 * alike.chance_error + 0.01
    assert alike.num[1] == pytest.approx(alike.num[0], rel=0.05)
    assert alike.burstiness[0] == pytest.approx(burstiness, rel=0.15)
    assert alike.burstiness[1] == pytest.approx(alike.burstiness[0], rel=0.1)
    for log, drawn in (*alike.prompt[:2], *alike.output[:2]):
        assert drawn == pytest.approx(log, rel=0.05)
    for log, drawn in (alike.prompt[2], alike.output[2]):
        assert drawn == pytest.approx(log, rel=0.12)
    assert alike.correlation[0] == pytest.approx(0.5, abs=0.03)
    assert alike.correlation[1] == pytest.approx(0.5, abs=0.03)
    hours = found.tenants[0].rates
    assert len(hours) == 24
    assert hours[12] == pytest.approx(0.85, rel=0.12)
    assert hours[2] == pytest.approx(0.15, rel=0.25)


def test_a_busy_hour_is_no_burst() -> None:
    at = np.sort(np.concatenate([stream(1, "a").uniform(0, 3600, 500), stream(1, "b").uniform(3600, 7200, 5000)]))
    rows = [TraceRow(float(instant), 10, 10) for instant in at]
    assert behaviour("a", rows, 7200.0).burstiness == pytest.approx(1.0, abs=0.25)
    flat = behaviour("a", rows, 7200.0 * 6)  # hours then: the second is as long as the first
    assert flat.rates[1] == pytest.approx(5000 / 3600, rel=0.01)


def test_correlation_does_not_depend_on_shape() -> None:
    first = stream(1, "x").standard_normal(4000)
    second = 0.7 * first + np.sqrt(1 - 0.49) * stream(2, "x").standard_normal(4000)
    assert correlation_of(np.exp(3 * first), second) == pytest.approx(0.7, abs=0.03)
    assert correlation_of(np.ones(50), first[:50]) == 0.0


def test_too_few_are_told() -> None:
    rows = [TraceRow(float(i), 9, 9, tenant="few" if i % 10 == 0 else "many") for i in range(100)]
    found = learn(rows)
    assert found.too_few == (("few", 10),)
    assert "# Left out: few, 10 requests are too few." in text_of(found, "log", "")


@pytest.mark.skipif(not DATA.is_dir(), reason="PLIMSOLL_DATA names no data")
@pytest.mark.parametrize(
    "name", ["azure2023/AzureLLMInferenceTrace_conv.csv.gz", "mooncake/conversation_trace.jsonl.gz"]
)
def test_published_traces_are_learnt(name: str) -> None:
    rows = list(traces.read(DATA / name))
    found = learn(rows)
    load = parse(text_of(found, name, "m").replace("name: ''", "name: x"), "learnt")
    drawn = [as_row(arrival) for arrival in load.arrivals(1)]
    again = behaviour("", drawn, found.duration)
    (source,) = found.tenants
    luck = np.sqrt(source.burstiness / source.num_conversations)  # of a count of so bursty arrivals
    assert len(drawn) == pytest.approx(len(rows), rel=3 * luck)
    assert np.mean(np.abs(np.array(again.rates) / np.array(source.rates) - 1)) < 2 * luck * np.sqrt(6)
    assert again.burstiness == pytest.approx(source.burstiness, rel=0.15)
    for attribute in ("prompt_tokens", "output_tokens"):
        for q in (0.5, 0.9, 0.99) if source.turns else (0.1, 0.5, 0.9, 0.99):  # sessions make up their prompts
            log, ours = (np.quantile([getattr(row, attribute) for row in side], q) for side in (rows, drawn))
            assert ours == pytest.approx(log, rel=0.15 if source.turns else 0.1, abs=3)
