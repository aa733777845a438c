"""The table is the whole truth: what it lists happens, anything else raises and changes nothing."""

import msgspec
import pytest

from plimsoll.errors import IllegalTransition
from plimsoll.governor import lifecycle
from plimsoll.governor.events import RequestArrived, RequestFinished
from plimsoll.governor.lifecycle import STATES, STEPS, TRANSITIONS, next_state
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome


def test_every_pair_is_decided() -> None:
    for state in range(len(STATES)):
        for step in range(len(STEPS)):
            expected = TRANSITIONS.get(state, {}).get(step)
            if expected is None:
                with pytest.raises(IllegalTransition, match=f"is {STATES[state]}: {STEPS[step]} is not allowed"):
                    next_state(1, state, step)
            else:
                assert next_state(1, state, step) == expected


def test_ends_are_outcomes_and_nothing_follows_them() -> None:
    ends = {name for state, name in enumerate(STATES) if state not in TRANSITIONS}
    assert ends == {outcome.value for outcome in Outcome}


def test_names_and_numbers_agree() -> None:
    for number, name in enumerate(STATES):
        assert getattr(lifecycle, name.upper()) == number
    for number, name in enumerate(STEPS):
        assert getattr(lifecycle, {"shed": "TAKE_OUT"}.get(name, name.upper())) == number


def test_every_state_can_be_reached_and_left_for_an_end() -> None:
    reached = {lifecycle.RECEIVED}
    for _ in STATES:
        reached |= {after for state in reached for after in TRANSITIONS.get(state, {}).values()}
    assert reached == set(range(len(STATES)))


def test_fields_are_read_in_the_order_of_the_values() -> None:
    """`Request` and `ending_of` unpack whole values; a new field must be taken in there."""
    assert RequestArrived.__struct_fields__ == (
        "at", "request_id", "tenant", "model", "prompt_tokens", "max_output_tokens", "num_choices", "prefix_hashes",
        "prefix_block_tokens", "endpoint", "streaming", "tier", "cause", "criticality", "session", "deadline_at",
        "upstream_time", "upstream_trust", "adapter", "client_request_id", "trace_id", "body_hash",
        "parent_span_id", "prompt_entropy", "checked", "matched",
    )  # fmt: skip
    assert RequestFinished.__struct_fields__ == (
        "at", "request_id", "outcome", "reason", "timing", "prompt_tokens", "output_tokens", "cached_tokens", "phase",
        "engine_rtt", "engine_retransmits", "client_rtt", "client_retransmits", "draft_tokens", "accepted_tokens",
    )  # fmt: skip
    assert Timing.__struct_fields__[:7] == (
        "first_token_at", "last_token_at", "num_tokens", "itl_max", "sketches", "itl_bad", "client_stall",
    )  # fmt: skip
    assert Timing.__struct_fields__[8:10] == ("stall_before", "stall_between")
    assert msgspec.structs.astuple(Timing())[:3] == (0.0, 0.0, 0)
