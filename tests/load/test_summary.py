"""A summary counts every result once, and claims no quantile that nothing bounds."""

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.load.result import Result, Seen
from plimsoll.load.summary import Tallies

RESULTS = st.builds(
    Result,
    client_request_id=st.just("r"),
    index=st.just(0),
    tenant=st.sampled_from(["a", "b", "c"]),
    outcome=st.sampled_from(Seen),
    scheduled_at=st.just(100.0),
    sent_at=st.floats(100.0, 101.0),
    first_token_at=st.one_of(st.just(0.0), st.floats(101.0, 102.0)),
    ended_at=st.floats(102.0, 103.0),
    reason=st.sampled_from(["", "tenant_rate"]),
    gaps=st.lists(st.floats(0.0, 1.0), max_size=3).map(tuple),
)


@given(st.lists(RESULTS, max_size=50))
def test_every_result_is_counted_once(results: list[Result]) -> None:
    tallies = Tallies("run")
    for result in results:
        tallies.add(result)
    summary = tallies.summary(start_at=100.0)
    assert summary.num_planned == len(results) == sum(summary.total.outcomes.values())
    assert sum(part.num_planned for part in summary.tenants) == len(results)
    assert [part.tenant for part in summary.tenants] == sorted({result.tenant for result in results})
    assert summary.total.ttft.p50.num == sum(result.first_token_at > 0 for result in results)
    assert summary.total.itl.p99.num == sum(len(result.gaps) for result in results)
    assert summary.total.e2e.p50.num == sum(result.outcome is Seen.COMPLETED for result in results)
    assert summary.total.ttft.p99.value is None, "50 values bound no p99"


def test_of_nothing_nothing_is_known() -> None:
    summary = Tallies("run").summary(0.0)
    assert (summary.duration, summary.prompt_tokens_ratio, summary.lateness.max) == (0.0, None, None)
    assert summary.total.ttft.p50.value is None
    assert not summary.stopped
