"""Traces of others: what is read is what was written, and a bad row is named."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.errors import TraceError, UsageError
from plimsoll.storage.tracerow import TraceRow
from plimsoll.storage.traces import read
from tests.shared_data import data

LENGTHS = st.integers(1, 200_000)


@st.composite
def traces(draw: st.DrawFn) -> list[TraceRow]:
    """Rows as our own CSV holds them, the first at 0."""
    at, rows = 0, []
    for index in range(draw(st.integers(1, 12))):
        at += draw(st.integers(0, 10_000)) if index else 0
        prompt = draw(LENGTHS)
        block = draw(st.integers(1, 64))
        num = draw(st.integers(0, min(8, prompt // block)))
        ids = tuple(draw(st.lists(st.integers(0, 2**40), min_size=num, max_size=num)))
        words = [draw(st.sampled_from(["", "a", 'b "quoted"', "c,d"])) for _ in range(4)]
        tenant, session, cause, criticality = words
        cached, upstream = draw(st.none() | st.integers(0, prompt)), draw(st.none() | st.floats(0, 1e4))
        rows.append(
            TraceRow(
                at / 1000, prompt, draw(LENGTHS), ids, block if ids else 0, tenant, session, cause, criticality,
                cached, upstream,
            )
        )  # fmt: skip
    return rows


@given(traces())
def test_own_csv_comes_back_as_it_went(tmp_path_factory: pytest.TempPathFactory, rows: list[TraceRow]) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.csv.gz"
    with gzip.open(path, "wt", newline="") as file:
        out = csv.writer(file)
        out.writerow(TraceRow.__struct_fields__)
        out.writerows([*row[:3], " ".join(map(str, row[3])), *row[4:]] for row in map(fields, rows))
    assert list(read(path)) == rows


def fields(row: TraceRow) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in TraceRow.__struct_fields__)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text)
    return path


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_azure_times_keep_half_a_microsecond(tmp_path: Path) -> None:
    path = write(tmp_path, AZURE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n")
    first, second = read(path)
    assert (first.at, first.prompt_tokens, first.output_tokens) == (0.0, 374, 44)
    assert second.at == pytest.approx(4.314579, abs=5e-7)


def test_mooncake_ids_stand_for_512_tokens(tmp_path: Path) -> None:
    line = {"timestamp": 27482, "input_length": 1030, "output_length": 52, "hash_ids": [46, 47, 2353]}
    (row,) = read(write(tmp_path, json.dumps(line)))
    assert row == TraceRow(0.0, 1030, 52, (46, 47, 2353), 512)


@pytest.mark.parametrize(
    ("text", "row", "rule"),
    [
        ("", 0, "empty"),
        ("when,how long\n1,2\n", 0, "no known format"),
        (AZURE + "2023-11-16 18:15:46.0,374\n", 1, "2 columns, the header has 3"),
        (AZURE + "2023-11-16 18:15:46.0,374,0\n", 1, "zero length"),
        (AZURE + "2023-11-16 18:15:46.0,0,4\n", 1, "zero length"),
        (AZURE + "2023-11-16 18:15:46.0,-3,4\n", 1, "ContextTokens is '-3'"),
        (AZURE + "2023-11-16 18:15:46.0,3.5,4\n", 1, "ContextTokens is '3.5'"),
        (AZURE + "16.11.2023,3,4\n", 1, "TIMESTAMP is '16.11.2023'"),
        (AZURE + "2023-11-16 18:15:46.2,3,4\n2023-11-16 18:15:46.1,3,4\n", 2, "time goes back by 0.1"),
        (
            '{"timestamp": 0, "input_length": 5, "output_length": 5}\n{"timestamp": 1, "input_length": 5}\n',
            2,
            "missing",
        ),
        ('{"timestamp": 0, "input_length": 5, "output_length": 5}\n[1]\n', 2, "not a JSON object"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 5}\n{"timest', 2, "not JSON"),
        ('{"timestamp": null, "input_length": 5, "output_length": 5}\n', 1, "timestamp is None"),
        ('{"timestamp": 0, "input_length": true, "output_length": 5}\n', 1, "input_length is True"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1, 2]}\n', 1, "cover 1024 tokens"),
        ('{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": ["x"]}\n', 1, "not a whole number"),
        ("at,prompt_tokens,output_tokens\nnan,5,5\n", 1, "at is 'nan'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, row: int, rule: str) -> None:
    with pytest.raises(TraceError, match=f"^trace, row {row}: " if row else "^trace: ") as caught:
        list(read(write(tmp_path, text)))
    assert caught.value.row == row
    assert rule in caught.value.rule


def test_faulty_rows_are_left_out_and_told_where_asked(tmp_path: Path) -> None:
    text = AZURE + "2023-11-16 18:15:46.0,374,44\n2023-11-16 18:15:40.0,374,44\n2023-11-16 18:15:47.0,0,44\n1,2\n"
    told: list[TraceError] = []
    rows = list(read(write(tmp_path, text + "2023-11-16 18:15:48.0,9,9\n"), told.append))
    assert [(row.at, row.prompt_tokens) for row in rows] == [(0.0, 374), (2.0, 9)]
    assert [(error.row, error.rule.split()[0]) for error in told] == [(2, "time"), (3, "prompt"), (4, "2")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt_len,output_len\n7,8\n9,10\n", [(0.0, 7, 8), (1.0, 9, 10)]),
        ("num_prefill_tokens,num_decode_tokens\n7,8\n", [(0.0, 7, 8)]),
        ("arrived_at,num_prefill_tokens,num_decode_tokens\n5,7,8\n6.5,9,10\n", [(0.0, 7, 8), (1.5, 9, 10)]),
        ('{"prompt_tokens": 7, "output_tokens": 8}\n', [(0.0, 7, 8)]),
    ],
)
def test_lengths_without_instants_come_one_a_second(
    tmp_path: Path, text: str, expected: list[tuple[float, int, int]]
) -> None:
    rows = read(write(tmp_path, text))
    assert [(row.at, row.prompt_tokens, row.output_tokens) for row in rows] == expected


def test_a_file_that_is_not_there_or_torn(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no trace at"):
        list(read(tmp_path / "none.csv"))
    torn = tmp_path / "torn.csv.gz"
    torn.write_bytes(gzip.compress((AZURE + "2023-11-16 18:15:46.0,374,4\n" * 999).encode())[:-20])
    with pytest.raises(TraceError, match="not readable"):
        list(read(torn))
    whole = gzip.compress((AZURE + "2023-11-16 18:15:46.0,374,4\n" * 999).encode())
    torn.write_bytes(whole[:10] + b"\xff" * 20 + whole[30:])
    with pytest.raises(TraceError, match="not readable"):
        list(read(torn))


@pytest.mark.parametrize(
    ("name", "num_rows", "mean_prompt", "mean_output"),
    [
        ("azure2023/AzureLLMInferenceTrace_conv.csv.gz", 19_366, 1155, 211),
        ("mooncake/conversation_trace.jsonl.gz", 12_031, 12_035, 343),
        ("llmservingsim/bench/RTXPRO6000_Llama-3.1-8B/requests.csv.gz", 300, None, None),
        ("llmservingsim/bench/RTXPRO6000_Llama-3.1-8B/workload_prefix_blocks.jsonl.gz", 300, None, None),
        ("apex/traces/llama_creation_025.csv.gz", None, None, None),
    ],
)
def test_the_published_traces(
    name: str, num_rows: int | None, mean_prompt: int | None, mean_output: int | None
) -> None:
    rows = list(read(data() / name))
    assert rows[0].at == 0.0
    assert num_rows is None or len(rows) == num_rows
    if mean_prompt is not None and mean_output is not None:
        assert sum(row.prompt_tokens for row in rows) / len(rows) == pytest.approx(mean_prompt, rel=0.002)
        assert sum(row.output_tokens for row in rows) / len(rows) == pytest.approx(mean_output, rel=0.005)
