"""Sessions, shared beginnings and upstream times of a known workload are found again in the log that it makes."""

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
import pytest

from plimsoll.cli.workload import text_of
from plimsoll.sim.conversations import conversations, counts_table
from plimsoll.sim.learning import Behaviour, behaviour, learn
from plimsoll.sim.likeness import as_row, likeness
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.storage.tracerow import TraceRow

LONG = 10_000.0
TEXT = """
duration: 10000s
model: m
tenants:
  - name: agents
    rate: 2
    turns: {quantiles: {0%: 1, 30%: 1, 30.01%: 3, 80%: 3, 80.01%: 8, 100%: 8}}
    think: {median: 12s, sigma: 0.8}
    prompt: {median: 900, sigma: 0.6, most: 60k}
    followup: {median: 150, sigma: 0.4}
    output: {median: 120, sigma: 0.7, most: 2k}
    correlation: 50%
    shared_tokens: 2048
    variants: 5
    upstream: {median: 300ms, sigma: 0.8}
    cause: rag
"""


@cache
def rows() -> list[TraceRow]:
    return [as_row(arrival) for arrival in parse(TEXT, "known").arrivals(3)]


def at(table: Sequence[tuple[float, float]], level: float) -> float:
    return float(np.interp(level, [share for share, _ in table], [value for _, value in table]))


def checked(found: Behaviour) -> None:
    """Within what some 6,000 sessions tell: 4 % of medians, 7 % at P90, and turns to two points of a hundred."""
    shares = {value: share for share, value in found.turns}
    assert shares[1.0] == pytest.approx(0.3, abs=0.02)
    assert shares[3.0] == pytest.approx(0.8, abs=0.02)
    assert shares[8.0] == 1.0
    assert at(found.think, 0.5) == pytest.approx(12.0, rel=0.04)
    assert at(found.think, 0.9) == pytest.approx(12.0 * np.exp(0.8 * 1.2816), rel=0.07)
    assert at(found.prompt, 0.5) == pytest.approx(900, rel=0.04)
    assert at(found.prompt, 0.9) == pytest.approx(900 * np.exp(0.6 * 1.2816), rel=0.07)
    assert at(found.followup, 0.5) == pytest.approx(150, rel=0.04)
    assert at(found.output, 0.5) == pytest.approx(120, rel=0.04)
    assert found.correlation == pytest.approx(0.5, abs=0.03)
    assert at(found.upstream, 0.5) == pytest.approx(0.3, rel=0.07)  # one a session
    assert found.burstiness == pytest.approx(1.0, rel=0.1)
    assert found.beginning.tokens == 2048
    assert found.cause == "rag"


def test_what_a_log_with_sessions_and_blocks_was_made_of_is_found_again() -> None:
    source = rows()
    found = learn(source, LONG)
    checked(found.tenants[0])
    assert found.tenants[0].beginning.variants == 5
    (alike,) = likeness(found, source, parse(text_of(found, "log", "m"), "learnt"), 1)
    assert alike.rate_error < 2.0 * alike.chance_error
    for log, drawn in (*alike.turns, *alike.think[:2], *alike.followup[:2], *alike.upstream[:2], *alike.prompt[:2]):
        assert drawn == pytest.approx(log, rel=0.07)
    assert alike.shared[1] == alike.shared[0]
    assert alike.repeated is not None
    assert alike.repeated[1] == pytest.approx(alike.repeated[0], abs=0.02)
    assert 0.3 < alike.repeated[0] < 0.95


def test_conversations_are_found_by_prefix_blocks_alone() -> None:
    """Short turns that fill no block leave no trace in blocks of 512 tokens, so this log has blocks of 64."""
    profile = TenantProfile(
        "a", 1.0, prompt=Lengths(700, 0.5, 60_000), followup=Lengths(300, 0.3), output=Lengths(200, 0.4), turns=4,
        think=15.0, shared_tokens=512, variants=3,
    )  # fmt: skip
    named = [as_row(arrival) for arrival in Workload((profile,), 8000.0, "m").arrivals(1)]
    fine = [msgspec.structs.replace(row, session="", prefix_ids=_blocks(row), block_tokens=64) for row in named]
    by_id = sorted(len(each) for each in conversations(named))
    by_blocks = sorted(len(each) for each in conversations(fine))
    assert len(by_blocks) == pytest.approx(len(by_id), rel=0.02)
    assert sum(by_blocks) == len(named)
    found = behaviour("a", fine, 8000.0)
    assert at(found.turns, 0.5) == 4.0
    assert found.beginning.tokens == 512
    assert found.beginning.variants == 3
    assert at(found.followup, 0.5) == pytest.approx(300, rel=0.04)


def _blocks(row: TraceRow) -> tuple[int, ...]:
    """Names for stretches of 64 tokens: the variant's, then the session's own."""
    own = int(row.session.split("-")[-1]) + 1
    return tuple(row.prefix_ids[0] * 1000 + i if i < 8 else (own << 20) + i for i in range(row.prompt_tokens // 64))


def test_a_log_of_ours_tells_beginnings_by_what_was_cached() -> None:
    """No prompt is stored, so there are no blocks: hits of first turns tell the beginning."""
    known: set[int] = set()
    source = []
    for row in rows():
        hits = sum(block in known for block in row.prefix_ids) * row.block_tokens
        known.update(row.prefix_ids)
        source.append(msgspec.structs.replace(row, prefix_ids=(), block_tokens=0, cached_tokens=hits))
    found = behaviour("agents", source, LONG)
    checked(found)
    assert found.beginning.variants <= 5  # those seen first before the log's first full turn are left out
    assert any("the most that there can be" in note for note in found.untold)


def test_what_cannot_be_learnt_is_said() -> None:
    source = rows()
    shrunk = [msgspec.structs.replace(row, prompt_tokens=500, prefix_ids=()) for row in source]
    found = behaviour("agents", shrunk, LONG)
    assert not found.turns
    assert any("do not hold the conversation so far" in note for note in found.untold)
    some = [
        msgspec.structs.replace(row, upstream_time=row.upstream_time if i % 4 == 0 else None)
        for i, row in enumerate(source)
    ]
    assert any(note.startswith("upstream time is not learnt") for note in behaviour("agents", some, LONG).untold)
    early = [row for row in source if row.at < 120.0]
    assert any("sessions last as long as the log" in note for note in behaviour("agents", early, 120.0).untold)


def test_the_end_of_the_log_is_not_the_end_of_its_sessions() -> None:
    """Four turns a quarter of an hour apart, in a log of an hour: most of them have not ended in it."""
    profile = TenantProfile("a", 2.0, prompt=Lengths(100, most=9999), output=Lengths(9), turns=4, think=900.0)
    source = [as_row(arrival) for arrival in Workload((profile,), 3600.0, "m").arrivals(1)]
    seen = conversations(source)
    assert np.mean([len(each) == 4 for each in seen]) < 0.55
    found = behaviour("a", source, 3600.0)
    shares = {value: share for share, value in found.turns}
    assert shares.get(3.0, 0.0) < 0.1
    assert at(found.think, 0.5) == pytest.approx(900 * np.log(2), rel=0.1)


def test_few_counts_are_told_one_by_one() -> None:
    assert counts_table(((0.5, 1.0), (1.0, 2.0))) == ((0.0, 1.0), (0.5, 1.0), (0.5001, 2.0), (1.0, 2.0))
