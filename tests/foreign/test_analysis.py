"""Logs of others as rows of ours: what a format says is read, what it does not say stays unknown, nothing is lost."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plimsoll.errors import TraceError, UsageError
from plimsoll.foreign.account import FileAccount
from plimsoll.foreign.analysis import account_of, analyse
from plimsoll.foreign.mapping import read_map
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage import query
from tests.foreign import samples

EXAMPLES = Path(__file__).parents[2] / "examples"


def analysed(tmp_path: Path, *paths: Path, **options: object) -> tuple[tuple[FileAccount, ...], list[Record]]:
    out = tmp_path / "out"
    account = analyse(paths, out, **options)  # type: ignore[arg-type]
    assert account_of(out) == account
    for file in account.files:
        assert file.num_rows == file.num_kept + sum(each.num for each in file.left_out)
    rows = list(query.records(out))
    assert len(rows) == account.num == sum(file.num_kept for file in account.files)
    return account.files, rows


def left_out(file: FileAccount) -> dict[str, tuple[int, int]]:
    return {each.rule: (each.num, each.first_row) for each in file.left_out}


def test_envoy(tmp_path: Path) -> None:
    (file,), rows = analysed(tmp_path, samples.write(tmp_path, "access.log", samples.ENVOY))
    assert file.format == "Envoy access log"
    assert "start_time" in file.reason
    assert [(row.outcome, row.reason) for row in rows] == [
        (Outcome.COMPLETED, Reason.DONE),
        (Outcome.ABORTED, Reason.CLIENT_LEFT),
        (Outcome.FAILED, Reason.CONNECT_FAILED),
    ]
    first = rows[0]
    assert (first.tenant, first.pool, first.replica, first.e2e) == ("acme", "llama", "10.0.0.1:8000", 1.5)
    assert (first.prompt_tokens, first.output_tokens, first.ttft, first.queued_for) == (120, 40, None, None)
    assert left_out(file) == {"its path is no inference endpoint's": (1, 4), "no end, and no duration": (1, 5)}
    assert any("TTFT" in each for each in file.cannot_tell)


def test_litellm(tmp_path: Path) -> None:
    path = tmp_path / "spend.csv.gz"
    path.write_bytes(gzip.compress("\n".join([samples.LITELLM_HEADER, *samples.LITELLM]).encode()))
    (file,), rows = analysed(tmp_path, path)
    assert file.format == "LiteLLM spend log"
    streamed, whole, failed = rows
    assert (streamed.tenant, streamed.streaming) == ("red-team", True)
    assert streamed.ttft == pytest.approx(0.4)
    assert streamed.tpot == pytest.approx(1.6 / 39)
    assert (whole.ttft, whole.streaming, whole.e2e) == (None, False, 3.0)
    assert (failed.tenant, failed.outcome, failed.prompt_tokens) == ("eve", Outcome.FAILED, 0)
    assert set(left_out(file)) == {
        "was answered from LiteLLM's own cache: no engine saw it",
        "no end, and no duration",
        "has other than as many cells as the header",
    }


def test_vllm_and_that_no_prompt_is_kept(tmp_path: Path) -> None:
    path = samples.write(tmp_path, "vllm.log", samples.VLLM)
    (file,), rows = analysed(tmp_path, path)
    assert file.format == "vLLM request log"
    streamed, aborted, *open_ones = rows
    assert (streamed.client_request_id, streamed.adapter, streamed.prompt_tokens) == ("cmpl-1", "sql", 4)
    assert (streamed.ttft, streamed.e2e, streamed.output_tokens, streamed.streaming) == (1.0, 3.0, 2, True)
    assert (aborted.client_request_id, aborted.outcome) == ("cmpl-2-0", Outcome.ABORTED)
    assert [(row.client_request_id, row.outcome) for row in open_ones] == [
        ("cmpl-3", Outcome.INTERRUPTED),
        ("cmpl-4", Outcome.INTERRUPTED),
    ]
    assert [row.verdicts for row in open_ones] == [(), ()], "nobody is blamed for what was merely open"
    assert open_ones[0].finished_at - open_ones[0].arrived_at == 7.0
    assert left_out(file) == {"ends without a beginning in this file": (1, 10)}
    kept = b"".join(each.read_bytes() for each in (tmp_path / "out").rglob("*") if each.is_file())
    assert b"How are you" not in kept


def test_llama_server_as_it_was_recorded(tmp_path: Path) -> None:
    """Of a real llama-server under more load than it bears: some clients left, some before they had a slot."""
    (file,), rows = analysed(tmp_path, EXAMPLES / "llama-server.log.gz")
    assert (file.format, file.num_kept) == ("llama-server log", 363)
    assert sum(each.num for each in file.left_out) == 37
    outcomes = Counter(row.outcome for row in rows)
    assert outcomes == {Outcome.COMPLETED: 328, Outcome.ABORTED: 35}
    first = next(row for row in rows if row.client_request_id == "task 0")
    assert (first.prompt_tokens, first.output_tokens) == (12, 9)
    assert first.ttft == pytest.approx(0.04797)
    assert first.arrived_at == pytest.approx(4.264103)
    assert first.tpot == pytest.approx(0.02833 / 8)


def test_llama_server_without_a_clock(tmp_path: Path) -> None:
    (file,), (row,) = analysed(tmp_path, samples.write(tmp_path, "llama.log", samples.LLAMA_OLD))
    assert (row.prompt_tokens, row.cached_tokens, row.output_tokens) == (1400, 40, 10)
    assert [row.ttft, row.e2e] == pytest.approx([5.09347, 5.41305])
    assert left_out(file) == {"has no timings": (1, 10)}
    assert any("no instants" in note for note in file.notes)


@pytest.mark.parametrize("whole", [False, True])
def test_otlp_spans_by_line_and_as_one_document(tmp_path: Path, *, whole: bool) -> None:
    spans = samples.OTLP
    if whole:
        spans = [{"resourceSpans": [part for each in spans for part in each["resourceSpans"]]}]
    (file,), rows = analysed(tmp_path, samples.write(tmp_path, "spans.json", spans))
    assert file.format == "OTLP spans"
    answered, failed = rows
    assert (answered.tenant, answered.e2e, answered.prompt_tokens, answered.output_tokens) == ("acme", 2.0, 100, 20)
    assert (answered.ttft, answered.queued_for) == (0.25, 0.05), "lent by the engine's own span below it"
    assert (failed.tenant, failed.outcome, failed.reason) == ("shop", Outcome.FAILED, Reason.TOTAL_TIMEOUT)
    assert sorted(num for num, _ in left_out(file).values()) == [1, 2]


def test_a_child_span_before_its_parent_is_counted_once(tmp_path: Path) -> None:
    child = samples.span("e", "c", 0.1, 0.5, gen_ai__operation__name="chat", gen_ai__server__time_to_first_token=0.2)
    parent = samples.span("c", "", 0.0, 1.0, gen_ai__operation__name="chat")
    path = samples.write(tmp_path, "s.jsonl", [samples.export(child), samples.export(parent)])
    (file,), (row,) = analysed(tmp_path, path)
    assert (row.e2e, row.ttft, file.num_rows) == (1.0, 0.2, 2)


def test_tables_of_every_kind_are_one_log(tmp_path: Path) -> None:
    rows = [
        {"ts": 1_790_000_000_000 + i, "ms": 100 + i, "who": "a/b" if i % 2 else "a-b", "code": 200} for i in range(6)
    ]
    jsonl = samples.write(tmp_path, "one.jsonl", rows)
    array = samples.write(tmp_path, "two.json", json.dumps({"data": rows}, indent=1))
    table = samples.write(
        tmp_path, "three.csv", ["ts;ms;who;code", *[";".join(map(str, each.values())) for each in rows]]
    )
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "four.parquet")
    mapping = read_map(["arrived_at=ts", "e2e=ms:ms", "tenant=who", "status=code"])
    files, found = analysed(tmp_path, jsonl, array, table, tmp_path / "four.parquet", mapping=mapping)
    assert [file.num_kept for file in files] == [6, 6, 6, 6]
    assert {row.tenant for row in found} == {"a-b", "a-b-2"}, "two names stay two"
    assert {row.pool for row in found} == {"one", "two", "three", "four"}
    assert (
        [row.e2e for row in found[:6]]
        == [row.e2e for row in found[18:]]
        == pytest.approx([0.1 + i / 1e3 for i in range(6)])
    )
    assert found[0].arrived_at == 1_790_000_000.0


def test_rules_name_the_row_and_never_its_value(tmp_path: Path) -> None:
    rows = [
        {"arrived_at": 10.0, "e2e": 1.0},
        {"arrived_at": "soon", "e2e": 1.0},
        {"arrived_at": 10.0, "e2e": -1.0},
        {"arrived_at": 10.0, "e2e": 1.0, "ttft": 2.0},
        {"arrived_at": 10.0, "e2e": 1.0, "status": "mysecret"},
        {"arrived_at": 10.0, "e2e": 1.0, "error": "something mysecret"},
        {"arrived_at": 11.0, "finished_at": 10.0},
        {"arrived_at": None},
    ]
    (file,), found = analysed(tmp_path, samples.write(tmp_path, "x.jsonl", [*rows, "[1]", "nonsense {"]))
    assert [row.outcome for row in found] == [Outcome.COMPLETED, Outcome.FAILED]
    assert left_out(file) == {
        "arrived_at is no instant": (1, 2),
        "e2e is negative": (1, 3),
        "its first token came before its arrival or after its end": (1, 4),
        "its status is a word that is not known": (1, 5),
        "ends before it begins": (1, 7),
        "no instant of arrival": (1, 8),
        "is no JSON object": (1, 9),
        "is not JSON": (1, 10),
    }
    assert "mysecret" not in str(file)


def test_token_instants_give_gaps_by_position(tmp_path: Path) -> None:
    row = {"arrival_s": 0.0, "prompt_tokens": 5, "ttft_ms": 100, "token_ms": [100 + 10 * i for i in range(200)]}
    _, (found,) = analysed(tmp_path, samples.write(tmp_path, "t.jsonl", [row]))
    assert found.itl_sketches is not None
    assert [sum(part.buckets.values()) for part in found.itl_sketches] == [127, 72, 0]
    assert found.output_tokens == 200
    assert [found.e2e, found.itl_max] == pytest.approx([2.09, 0.01])


def test_a_policy_judges_and_tells_tenants_apart(tmp_path: Path) -> None:
    policy = """plimsoll: 1
tiers:
  - {name: gold, rank: 0, objectives: [{sli: e2e, below: 1s, target: 90%}, {sli: ttft, below: 1s, target: 90%}]}
tenants: [{name: acme, tier: gold}]
pools: []
"""
    rows = [
        {"arrived_at": 1.0 * i, "e2e": i / 2, "tenant": "acme" if i < 4 else "new", "stream": True} for i in range(6)
    ]
    _, found = analysed(tmp_path, samples.write(tmp_path, "p.jsonl", rows), policy_text=policy)
    by_name = [{verdict.objective: verdict.num_bad for verdict in row.verdicts} for row in found]
    assert [each.get("e2e") for each in by_name] == [0, 0, 0, 1, None, None], (
        "whom the policy does not know is not judged"
    )
    assert all("ttft" not in each for each in by_name), "no TTFT in the file: unknown, neither good nor bad"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("a,b\n1,2\n", "no known format"),
        ("arrived_at,x\n1,2\n", "no request is left"),
        ("{", "known"),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        analyse([samples.write(tmp_path, "bad.csv", text)], tmp_path / "out")


def test_bad_mappings_and_places(tmp_path: Path) -> None:
    for entry, why in (
        ("speed=x", "no such field"),
        ("ttft=", "names no column"),
        (str(tmp_path / "no.json"), "neither"),
    ):
        with pytest.raises(UsageError, match=why):
            read_map([entry])
    with pytest.raises(UsageError, match="no log at"):
        analyse([tmp_path / "none"], tmp_path / "out")
    path = samples.write(tmp_path, "x.jsonl", [{"arrived_at": 1.0, "e2e": 1.0}])
    analyse([path], tmp_path / "out")
    with pytest.raises(UsageError, match="holds a log already"):
        analyse([path], tmp_path / "out")
    damaged = tmp_path / "y.csv.gz"
    damaged.write_bytes(gzip.compress(b"arrived_at,e2e\n" + b"1,1\n" * 500)[:12])
    with pytest.raises(TraceError, match="is damaged"):
        analyse([damaged], tmp_path / "out2")


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
@pytest.mark.parametrize("cut", [slice(None, -9), slice(None, 20_000)], ids=["without its end", "half"])
def test_a_packed_file_that_is_cut_off_is_read_as_far_as_it_is_whole(tmp_path: Path, name: str, cut: slice) -> None:
    dice = random.Random(1)
    values = [(1000.0 + num, dice.randrange(1, 10**12) / 1e9) for num in range(5000)]
    if name == "log.csv":
        lines = ["arrived_at,e2e", *[f"{at},{e2e}" for at, e2e in values]]
    else:
        lines = [json.dumps({"arrived_at": at, "e2e": e2e}) for at, e2e in values]
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode())[cut])
    (file,), rows = analysed(tmp_path, path)
    assert [row.e2e for row in rows] == pytest.approx([e2e for _, e2e in values[: len(rows)]])
    assert 1000 < file.num_kept <= 5000
    assert left_out(file) == {
        "is cut off where the packed file is damaged, and what followed is lost": (1, file.num_kept + 1)
    }
    num_lines = file.num_kept + (name == "log.csv")
    assert any(
        f"after {num_lines:,} lines" in note and f"of {path.stat().st_size:,} packed" in note for note in file.notes
    )
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    assert analyse([path], tmp_path / "whole").files[0].num_kept == 5000


def test_a_packed_document_that_is_cut_off_is_none(tmp_path: Path) -> None:
    dice = random.Random(1)
    rows = [{"arrived_at": 1.0, "e2e": dice.random()} for _ in range(50_000)]
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode())[:-20_000])
    with pytest.raises(TraceError, match=r"is damaged.*Compressed file ended"):
        analyse([path], tmp_path / "out", mapping=read_map(["arrived_at=arrived_at", "e2e=e2e"]))


@pytest.mark.parametrize("place", [0, 7, -1])
def test_a_stray_export_does_not_make_spans_of_another_log(tmp_path: Path, place: int) -> None:
    lines = gzip.decompress((EXAMPLES / "llama-server.log.gz").read_bytes()).decode().splitlines()
    lines.insert(place % len(lines), json.dumps(samples.OTLP[0]))
    (stray,), rows = analysed(tmp_path, samples.write(tmp_path, "server.log", lines))
    whole = analyse([EXAMPLES / "llama-server.log.gz"], tmp_path / "whole").files[0]
    assert (stray.format, stray.num_kept) == ("llama-server log", whole.num_kept)
    assert len(rows) == whole.num_kept


def test_tenants_beyond_the_bound_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll.foreign.analysis.MOST", 3)
    rows = [{"arrived_at": 1.0, "e2e": 1.0, "tenant": f"t{i % 5}"} for i in range(10)]
    account = analyse([samples.write(tmp_path, "x.jsonl", rows)], tmp_path / "out")
    assert {row.tenant for row in query.records(tmp_path / "out")} == {"t0", "t1", "t2", "other-tenants"}
    assert "4 rows" in account.notes[-1]
