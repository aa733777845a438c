"""A log read back as a trace is the load that was, not the load that was answered."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.slo.outcome import Outcome
from plimsoll.storage.ownlog import trace_rows
from tests.console.test_live import record


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[float, str, int, int]]:
    """(arrival, tenant, prompt, output), in the log's order, which is that of ends."""
    return draw(
        st.lists(
            st.tuples(st.floats(0, 1e6), st.sampled_from("ab"), st.integers(0, 99), st.integers(0, 99)), max_size=30
        )
    )


@given(logs())
def test_every_known_request_comes_once_in_order(log: list[tuple[float, str, int, int]]) -> None:
    records = [
        msgspec.structs.replace(
            record(number, tenant, 0.1, Outcome.COMPLETED if output else Outcome.REJECTED),
            arrived_at=at,
            prompt_tokens=prompt,
            output_tokens=output,
        )
        for number, (at, tenant, prompt, output) in enumerate(log)
    ]
    rows = trace_rows(records)
    known = [one for one in log if one[2]]
    assert sorted((row.tenant, row.prompt_tokens) for row in rows) == sorted((one[1], one[2]) for one in known)
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    assert not rows or rows[0].at == 0.0
    assert all(row.output_tokens >= 1 for row in rows)
    answered = {one[3] for one in known if one[3]}
    if answered:
        assert all(min(answered) <= row.output_tokens <= max(answered) for row in rows)
