"""Workload files: what they say is what comes, and every fault is told with its path and the nearest key."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from plimsoll.errors import PolicyError
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.storage.tracerow import TraceRow


def tenant(more: str, duration: str = "400s", top: str = "") -> list[Arrival]:
    return list(parse(f"duration: {duration}\n{top}\ntenants: [{{name: a, {more}}}]", "w.yaml").arrivals(1))


def rate(arrivals: Sequence[Arrival], since: float, until: float) -> float:
    return sum(since <= arrival.at < until for arrival in arrivals) / (until - since)


def test_lengths_follow_their_table_and_correlate() -> None:
    table = "{quantiles: {0%: 10, 50%: 100, 90%: 1000, 100%: 40000}}"
    arrivals = tenant(f"rate: 100, prompt: {table}, output: {table}, correlation: -60%")
    prompts = np.array([arrival.prompt_tokens for arrival in arrivals])
    outputs = np.array([arrival.output_tokens for arrival in arrivals])
    for tokens in (prompts, outputs):  # at P50 100 tokens are 0.14 sigma, at P90 and above 1000 are 0.08
        assert np.quantile(tokens, 0.5) == pytest.approx(100, abs=20)
        assert 950 < np.quantile(tokens, 0.9) < 1400
    assert 8192 < prompts.max() <= 40_000
    ranks = np.corrcoef(prompts.argsort().argsort(), outputs.argsort().argsort())[0, 1]
    assert ranks == pytest.approx(6 / np.pi * np.arcsin(-0.6 / 2), abs=0.02)  # Spearman's of a Gaussian copula


def test_on_and_off_keep_the_mean_rate() -> None:
    arrivals = tenant("rate: 50, bursts: {on: 2s, off: 6s}", "2000s")
    assert rate(arrivals, 0, 2000) == pytest.approx(50, rel=0.1)
    counts = np.histogram([arrival.at for arrival in arrivals], bins=np.arange(0, 2000.5, 0.5))[0]
    assert np.mean(counts == 0) == pytest.approx(0.7, abs=0.08)  # off three quarters of the time, at the edges less
    assert counts[counts > 50].mean() == pytest.approx(100, rel=0.1)  # 200 a second when on


def test_hours_and_days_are_those_of_the_zone() -> None:
    day = ", ".join("2" if hour == 9 else "0" for hour in range(24))
    top = "timezone: Asia/Shanghai\nstart: '2026-01-06T08:00'"  # a Tuesday
    arrivals = tenant(f"rate: 1, daily: [{day}], weekly: [1, 1, 3, 1, 1, 1, 0]", "3d", top)
    assert {int(arrival.at // 3600) for arrival in arrivals} == {1, 25, 49}
    assert rate(arrivals, 3600, 7200) == pytest.approx(2, rel=0.1)
    assert rate(arrivals, 25 * 3600, 26 * 3600) == pytest.approx(6, rel=0.1)
    assert parse(f"{top}\ntenants: [{{name: a, rate: 1}}]", "w").start_at == 1_767_657_600.0
    same = top.replace("08:00", "00:00+00:00")  # told with another offset
    assert tenant(f"rate: 1, daily: [{day}], weekly: [1, 1, 3, 1, 1, 1, 0]", "3d", same) == arrivals
    assert parse(f"{same}\ntenants: [{{name: a, rate: 1}}]", "w").start_at == 1_767_657_600.0


def test_a_tenant_comes_on_tuesday_and_its_rate_ramps() -> None:
    arrivals = tenant(
        "rate: 0.2, starts: Tuesday 01:00, changes: [{at: Tuesday 03:00, rate: 1, over: 2h}]", duration="2d"
    )
    day = 86_400
    assert rate(arrivals, 0, day + 3600) == 0
    assert rate(arrivals, day + 3600, day + 3 * 3600) == pytest.approx(0.2, rel=0.1)
    assert rate(arrivals, day + 3 * 3600, day + 5 * 3600) == pytest.approx(0.62, rel=0.1)
    assert rate(arrivals, day + 5 * 3600, 2 * day) == pytest.approx(1, rel=0.1)


def test_a_model_upgrade_begins_a_phase() -> None:
    arrivals = tenant(
        "rate: 20, model: old, changes: [{at: 100s, model: new, output: {median: 7}}, {at: 200s, rate: 40}]"
    )
    before = [arrival for arrival in arrivals if arrival.at < 100]
    after = [arrival for arrival in arrivals if arrival.at >= 100]
    assert {arrival.model for arrival in before} == {"old"}
    assert {arrival.model for arrival in after} == {"new"}
    assert {arrival.output_tokens for arrival in after} == {7}
    assert rate(arrivals, 0, 100) == pytest.approx(20, rel=0.15)
    assert rate(arrivals, 100, 200) == pytest.approx(20, rel=0.15)
    assert rate(arrivals, 200, 400) == pytest.approx(40, rel=0.1)


def test_upstream_time_comes_along() -> None:
    times = [arrival.upstream_time for arrival in tenant("rate: 20, upstream: {median: 200ms, sigma: 0.5}, cause: rag")]
    assert np.median([time for time in times if time is not None]) == pytest.approx(0.2, rel=0.05)


ROWS = [TraceRow(float(i), 100 + i, 10, (i // 2, 1000 + i), 64) for i in range(100)]


def traced(text: str, rows: Sequence[TraceRow] = ROWS) -> Workload:
    return parse(text, "w.yaml", lambda _file, _leave_out: rows)


def test_a_trace_is_sent_as_it_is() -> None:
    arrivals = list(traced("traces: [{file: t, tenants: [{name: a}]}]").arrivals(1))
    assert [(a.at, a.prompt_tokens, a.output_tokens) for a in arrivals] == [(r.at, r.prompt_tokens, 10) for r in ROWS]
    assert arrivals[3].hashes == (1,)  # the second stretch of 64 is not whole
    assert arrivals[40].hashes == (20, 1040)
    assert arrivals[40].hash_tokens == 64


def test_a_trace_is_scaled_without_moving_what_was_there() -> None:
    text = "traces: [{{file: t, tenants: [{{name: a, rate: {rate}, prompt: 50%, output: 3}}, {{name: b, weight: 3}}]}}]"
    once, often = (list(traced(text.format(rate=rate)).arrivals(1)) for rate in ("100%", "2.5"))
    assert [a.at for a in once] == [row.at for row in ROWS]
    assert sum(a.tenant == "a" for a in once) == pytest.approx(25, abs=10)
    of_b = [a for a in once if a.tenant == "b"]
    assert [a for a in often if a.tenant == "b"] == of_b
    of_a = [a for a in once if a.tenant == "a"]
    assert all(a in often for a in of_a)
    assert sum(a.tenant == "a" for a in often) == pytest.approx(2.5 * len(of_a), abs=6)
    assert {a.output_tokens for a in of_a} == {30}
    assert all(earlier.at <= later.at for earlier, later in pairwise(often))


def test_a_trace_repeats_at_speed_until_the_end() -> None:
    arrivals = list(
        traced("{duration: 100s, traces: [{file: t, speed: 4, repeats: true, tenants: [{name: a}]}]}").arrivals(1)
    )
    assert len(arrivals) == 400
    assert {round(b.at - a.at, 6) for a, b in pairwise(arrivals)} == {0.25}


def test_instants_can_be_drawn_for_lengths() -> None:
    arrivals = list(traced("traces: [{file: t, speed: 10, poisson: true, tenants: [{name: a}]}]").arrivals(1))
    gaps = np.diff([arrival.at for arrival in arrivals])
    assert gaps.mean() == pytest.approx(0.1, rel=0.25)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.3)


def test_a_log_keeps_its_own_tenants_or_gives_them_to_others() -> None:
    rows = [TraceRow(float(i), 5, 5, tenant="xy"[i % 2]) for i in range(10)]
    own = traced("traces: [{file: t}]", rows)
    assert own.names == ("x", "y")
    assert [arrival.tenant for arrival in own.without("y").arrivals(1)] == ["x"] * 5
    given = traced("traces: [{file: t, tenants: [{name: a, of: x}, {name: b}]}]", rows)
    assert [arrival.tenant for arrival in given.arrivals(1)] == ["a", "b"] * 5


def test_scaling_one_tenant_leaves_the_others() -> None:
    load = parse("{duration: 50s, tenants: [{name: a, rate: 4}, {name: b, rate: 4}]}", "w")
    more = load.scaled(1.5, {"a"})
    assert [x for x in more.arrivals(1) if x.tenant == "b"] == [x for x in load.arrivals(1) if x.tenant == "b"]
    assert sum(x.tenant == "a" for x in more.arrivals(1)) == pytest.approx(300, rel=0.2)


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("tenants: [{name: a, rate: 1, daily: [1, 2]}]", ["tenants[0].daily: has 2 factors, must have 24"]),
        ("tenants: [{name: a, rate: 1, burst: {on: 1s}}]", ["burst: unknown key (nearest known key: bursts)"]),
        ("tenants: [{name: a, rate: 1, starts: Someday}]", ["starts: 'Someday' is no instant (3h, Tuesday"]),
        ("tenants: [{name: a, rate: 1, changes: [{at: 1s}]}]", ["changes[0].at: changes nothing"]),
        ("tenants: [{name: a, rate: 1, correlation: 2}]", ["correlation: must be at most 100%"]),
        ("tenants: [{name: a, rate: 1, prompt: {quantiles: {0%: 5, 50%: 4}}}]", ["50%: shares and what stands at"]),
        ("tenants: [{name: a, rate: 1, upstream: {sigma: 1}}]", ["upstream.median: missing"]),
        ("tenants: [{name: a, rate: 1, criticality: much}]", ["criticality: 'much' is none of"]),
        ("duration: 5s", ["tenants: none is given, and no traces"]),
        ("traces: [{file: t}]", ["traces[0].tenants: t does not say whose its requests are"]),
        ("traces: [{fiel: t}, {file: t, speed: 0}]", ["traces[0].file: missing", "fiel: unknown", "must be above 0"]),
        ("{timezone: Mars/One, tenants: [{name: a, rate: 1}]}", ["timezone: 'Mars/One' is no zone"]),
    ],
)  # fmt: skip
def test_faults_are_told_with_path_and_hint(text: str, faults: list[str]) -> None:
    with pytest.raises(PolicyError) as raised:
        traced(text)
    told = [str(fault) for fault in raised.value.faults]
    assert len(told) == len(faults)
    for fault, expected in zip(told, faults, strict=True):
        assert expected in fault
