"""A plan is a function of trace, tenants, shape and seed; prompts share exactly what the trace says they share."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.errors import PolicyError, UsageError
from plimsoll.load.plan import Planned, Shape, plan
from plimsoll.load.prompts import WORDS, Prompts
from plimsoll.load.tenants import Sender, read_senders
from plimsoll.storage.tracerow import TraceRow

SENDERS = (Sender("a", "sk-a", 3.0), Sender("b", "sk-b", 1.0), Sender("idle", "sk-c", 0.0))
ROWS = [TraceRow(i * 0.5, 100 + i, 10 + i) for i in range(400)]


def test_weights_are_kept_and_a_tenant_of_no_weight_gets_nothing() -> None:
    counts = [0, 0, 0]
    for one in plan(ROWS, SENDERS, Shape()):
        counts[one.sender] += 1
    assert counts[2] == 0
    assert counts[0] / 400 == pytest.approx(0.75, abs=0.08)


def test_a_row_keeps_its_fate_whatever_part_of_the_trace_is_sent() -> None:
    whole = {one.index: one for one in plan(ROWS, SENDERS, Shape(cancel_ratio=0.5))}
    part = list(plan(ROWS, SENDERS, Shape(cancel_ratio=0.5, skip=50.0, duration=60.0)))
    assert [one.index for one in part] == list(range(100, 220))
    assert part[0].at == 0.0
    for one in part:
        assert (one.sender, one.leaves_after) == (whole[one.index].sender, whole[one.index].leaves_after)


def test_speed_scale_caps_and_limit() -> None:
    shape = Shape(speed=10.0, limit=3, prompt_scale=0.1, output_scale=2.0, max_output_tokens=23)
    planned = list(plan(ROWS, SENDERS, shape))
    assert [(one.at, one.prompt_tokens, one.output_tokens) for one in planned] == [
        (0, 10, 20),
        (0.05, 10, 22),
        (0.1, 10, 23),
    ]


def test_a_sample_is_a_part_of_the_whole() -> None:
    whole = {one.index: one for one in plan(ROWS, SENDERS, Shape())}
    part = list(plan(ROWS, SENDERS, Shape(sample_ratio=0.25)))
    assert len(part) / 400 == pytest.approx(0.25, abs=0.08)
    assert all(whole[one.index] == one for one in part)


def test_a_tenant_of_the_trace_is_kept_and_a_session_stays_with_one() -> None:
    rows = [TraceRow(0.0, 5, 5, tenant="b"), *(TraceRow(1.0, 5, 5, session="s") for _ in range(20))]
    named, *sessions = plan(rows, SENDERS, Shape())
    assert named.sender == 1
    assert len({one.sender for one in sessions}) == 1
    with pytest.raises(UsageError, match="tenant stranger of the trace has no key"):
        list(plan([TraceRow(0.0, 5, 5, tenant="stranger")], SENDERS, Shape()))


@st.composite
def planned(draw: st.DrawFn, index: int) -> Planned:
    block = draw(st.sampled_from([1, 3, 16, 512]))
    ids = tuple(draw(st.lists(st.integers(0, 5), max_size=6)))
    tokens = draw(st.integers(max(1, (len(ids) - 1) * block + 1), len(ids) * block + 2000))
    return Planned(index, 0.0, 0, tokens, 1, ids, block if ids else 0)


PROMPTS = {words: Prompts(7, words=words) for words in (False, True)}


def pieces(one: Planned, words: bool) -> list[bytes]:
    return PROMPTS[words].make(one).split(b" " if words else b",")


@given(planned(1), planned(2), st.booleans())
def test_prompts_have_their_length_and_share_what_is_shared(first: Planned, second: Planned, words: bool) -> None:
    mine, theirs = pieces(first, words), pieces(second, words)
    assert (len(mine), len(theirs)) == (first.prompt_tokens, second.prompt_tokens)
    shared = 0
    if first.block_tokens == second.block_tokens:
        for left, right in zip(first.prefix_ids, second.prefix_ids, strict=False):
            if left != right:
                break
            shared += first.block_tokens
    shared = min(shared, len(mine), len(theirs))
    assert mine[:shared] == theirs[:shared]
    ends = (
        first.prefix_ids[shared // (first.block_tokens or 1) :],
        second.prefix_ids[shared // (second.block_tokens or 1) :],
    )
    if min(len(mine), len(theirs)) - shared >= 6 and not any(ends):
        assert mine[shared : shared + 6] != theirs[shared : shared + 6]


def test_a_prompt_longer_than_the_sea_is_still_exact() -> None:
    long = Planned(3, 0.0, 0, 200_000, 1)
    ids = pieces(long, words=False)
    assert len(ids) == 200_000
    assert {len(piece) for piece in ids} == {4}
    assert pieces(long, words=False) == ids
    assert Prompts(8).make(long) != PROMPTS[False].make(long)


def test_words_are_of_one_width_and_unlike() -> None:
    assert {len(word) for word in WORDS} == {4}
    assert len(set(WORDS)) == len(WORDS) > 200
    with pytest.raises(ValueError, match="differ in their number of digits"):
        Prompts(1, range(900, 1100))


def test_tenant_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "sk-secret")
    path = tmp_path / "map.yaml"
    path.write_text("tenants:\n  - {name: acme, key: 'env:ACME_KEY', weight: 2, model: m}\n  - {name: b, key: k}\n")
    assert read_senders(path) == (Sender("acme", "sk-secret", 2.0, "m"), Sender("b", "k"))
    path.write_text("acme: sk-1\nb: {key: sk-2, weight: 0}\n")
    assert read_senders(path) == (Sender("acme", "sk-1"), Sender("b", "sk-2", 0.0))
    table = tmp_path / "map.csv"
    table.write_text("name,key,weight\nacme,sk-1,2.5\nb,sk-2,\n")
    assert read_senders(table) == (Sender("acme", "sk-1", 2.5), Sender("b", "sk-2"))


def test_every_fault_of_a_tenant_map_is_told(tmp_path: Path) -> None:
    path = tmp_path / "map.yaml"
    path.write_text("tenants: [{name: a, weight: -1}, {name: a, key: 'env:NOT_SET_ANYWHERE', wieght: 2}, {key: k}]\n")
    with pytest.raises(PolicyError) as caught:
        read_senders(path)
    told = {(fault.path, fault.message) for fault in caught.value.faults}
    assert told == {
        ("tenants[0]", "has no key"),
        ("tenants[0].weight", "-1 is not a number of 0 or more"),
        ("tenants[1].key", "NOT_SET_ANYWHERE is not set in the environment"),
        ("tenants[1].wieght", "no such key"),
        ("tenants[2]", "has no name"),
        ("a", "is named twice"),
    }
    with pytest.raises(UsageError, match="no tenant map"):
        read_senders(tmp_path / "none.yaml")
    path.write_text("[]")
    with pytest.raises(PolicyError, match="there are none"):
        read_senders(path)
    path.write_text("{a")
    with pytest.raises(PolicyError, match="not YAML"):
        read_senders(path)
