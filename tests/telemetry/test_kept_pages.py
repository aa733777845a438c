"""Pages keep what did not move and patch what did; the bytes are those of a page written plainly from all rows."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import ItlSketch
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement, Verdict
from plimsoll.telemetry.exposition import Page
from plimsoll.telemetry.prometheus import AT_ONCE, MAX_OWNERS, Metrics
from plimsoll.telemetry.protobufpage import ProtobufPage
from tests.telemetry import plainpage
from tests.telemetry.test_prometheus_page import record

PLAIN = {Page: plainpage.text, ProtobufPage: plainpage.protobuf}
SECONDS = st.none() | st.just(0.0) | st.floats(1e-5, 2000) | st.floats(0.1, 0.3)
SKETCHES = st.none() | st.tuples(
    # edges that are powers of two: their sum is exact in whatever order they are added
    *[
        st.builds(
            ItlSketch,
            st.integers(0, 3),
            st.dictionaries(st.integers(-12, 2).map(lambda octave: 32 * octave), st.integers(1, 9)),
        )
    ]
    * 3
)
VERDICTS = st.lists(
    st.builds(
        Verdict, st.sampled_from(["ttft", "itl"]), st.sampled_from(Judgement), st.integers(0, 300), st.integers(0, 9)
    ),
    max_size=2,
).map(tuple)
ROWS = st.builds(
    record,
    tenant=st.sampled_from(["acme", 'be"ta\\', "ga\nmma", "100%d", "租户"]),
    tier=st.sampled_from(["gold", "bronze"]),
    outcome=st.sampled_from([Outcome.COMPLETED, Outcome.SHED]),
    reason=st.sampled_from([Reason.DONE, Reason.OVERLOAD]),
    dispatched_at=st.none() | st.just(1.0),
    ttft=SECONDS,
    e2e=SECONDS,
    queued_for=SECONDS,
    plugin_time=SECONDS,
    plugins=st.sampled_from(["", "guard:allow", "guard:deny,redact:timeout"]),
    itl_sketches=SKETCHES,
    verdicts=VERDICTS,
    prompt_tokens=st.integers(0, 9),
    output_tokens=st.integers(0, 9),
    cached_tokens=st.none() | st.integers(0, 9),
)
STEPS = st.lists(st.lists(ROWS, min_size=1, max_size=8) | st.sampled_from([Page, ProtobufPage]), max_size=14)


def written(metrics: Metrics, page: Page | ProtobufPage) -> bytes:
    for _ in metrics.write(page):
        pass
    return b"".join(page.pieces())


@settings(max_examples=80)
@given(STEPS)
def test_a_page_is_what_one_written_plainly_is(steps: list[Any]) -> None:
    metrics, rows = Metrics(), list[Record]()
    for step in [*steps, Page, ProtobufPage]:
        if isinstance(step, list):
            rows += step
            for row in step:
                metrics.settled(Settle(row, ()))
        else:
            assert written(metrics, step()) == PLAIN[step](rows)


@settings(max_examples=25)
@given(st.lists(st.lists(st.floats(0.001, 8), min_size=1, max_size=2), min_size=60, max_size=120), st.randoms())
def test_a_long_life_of_few_values_between_scrapes(batches: list[list[float]], dice: Any) -> None:
    """Spans are lengthened, joined and begun one by one, sometimes behind the back of the other format."""
    metrics, rows = Metrics(), list[Record]()
    for batch in batches:
        for value in batch:
            rows.append(record(ttft=value, dispatched_at=1.0))
            metrics.settled(Settle(rows[-1], ()))
        if dice.random() < 0.1:
            written(metrics, Page())
        found = written(metrics, ProtobufPage())
        if dice.random() < 0.1:
            assert found == plainpage.protobuf(rows)
    assert written(metrics, ProtobufPage()) == plainpage.protobuf(rows)
    assert written(metrics, Page()) == plainpage.text(rows)


@pytest.mark.parametrize("make", [Page, ProtobufPage])
def test_what_ends_while_a_page_is_written_is_whole_on_the_next(make: type[Page] | type[ProtobufPage]) -> None:
    metrics, page, rows = Metrics(), make(), list[Record]()

    def end(num: int) -> None:
        rows.append(record(tenant=f"tenant-{num:02}", ttft=0.2, dispatched_at=1.0))
        metrics.settled(Settle(rows[-1], ()))

    for num in range(3 * AT_ONCE):
        end(num)
    before = PLAIN[make](rows)
    writing: Iterator[None] = metrics.write(page)
    next(writing)
    end(0)  # is on the page already
    for _ in writing:
        pass
    assert b"".join(page.pieces()) == before
    assert written(metrics, make()) == PLAIN[make](rows)


def test_a_scrape_takes_turns_with_others() -> None:
    metrics = Metrics()

    def turns(num_moved: int) -> int:
        for num in range(num_moved):
            metrics.settled(Settle(record(tenant=f"t{num}", ttft=0.2, dispatched_at=1.0), ()))
        return sum(1 for _ in metrics.write(Page()))

    first, again, nothing_moved, some = (turns(num) for num in (10 * AT_ONCE, 10 * AT_ONCE, 0, 2 * AT_ONCE))
    assert (first - nothing_moved, again - nothing_moved, some - nothing_moved) == (10 * AT_ONCE // 2, 10, 2)


def test_owners_are_bounded() -> None:
    metrics = Metrics()
    for num in range(MAX_OWNERS + 3):
        metrics.settled(Settle(record(tenant=f"t{num:04}"), ()))
    page = written(metrics, Page()).decode()
    assert page.count("plimsoll_requests_total{") == MAX_OWNERS + 1
    assert 'plimsoll_requests_total{tenant="other",tier="other",outcome="completed",reason="done"} 3\n' in page
