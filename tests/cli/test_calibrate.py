"""`plimsoll calibrate`: a profile that can be used, what it is worth, and what it refuses."""

import gzip
import json
from pathlib import Path

import pytest

from plimsoll.cli.calibrate import calibrate
from plimsoll.engine import profiles
from plimsoll.errors import ProfileError, TraceError, UsageError
from plimsoll.sim.replaying import EngineRun
from tests.sim.test_enginefit import TRUE, answered, asked, timings


def lines(*runs: EngineRun) -> str:
    text = ""
    for run in runs:
        for seen in run.seen:
            at, tokens = seen.ttft, [1000 * seen.ttft]
            for gap in seen.gaps:
                at += gap
                tokens.append(1000 * at)
            row = {"run": run.name, "arrival_s": seen.arrived_at, "prompt_tokens": seen.prompt_tokens}
            row |= {"output_tokens": seen.output_tokens, "ttft_ms": 1000 * seen.ttft, "token_ms": tokens}
            text += json.dumps(row) + "\n"
    return text


def test_a_log_becomes_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "log.jsonl"
    source.write_text(lines(answered(asked("seen", 25, 0.1, 1)), answered(asked("unseen", 15, 0.2, 2))))
    out = tmp_path / "mine.yaml"
    calibrate(source, out=out, like="tiny-vllm-cpu", runs="seen", evaluations=60, set_=["max_num_seqs=4"])
    printed = capsys.readouterr().out
    assert "fitted on" in printed
    assert "predicted" in printed
    assert "beyond is extrapolation" in printed
    profile = profiles.load(str(out))
    assert profile.name == "mine"
    assert profile.max_num_seqs == 4
    assert profile.fitted_max_tokens == 512
    assert "25 requests of 1 runs" in profile.source
    calibrate(source, out=out, runs="seen", evaluations=20, json_output=True)
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["predicted"]] == ["unseen"]


def test_timings_become_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{t.prefill_tokens},{t.num_seqs},{t.context_tokens},{t.work},{t.seconds}" for t in timings()]
    source = tmp_path / "steps.csv"
    source.write_text("prefill_tokens,num_seqs,context_tokens,work,seconds\n" + "\n".join(rows) + "\n")
    calibrate(source, out=tmp_path / "steps.yaml")
    assert "decode: 12 timings, error median 0.0%" in capsys.readouterr().out
    assert profiles.load(str(tmp_path / "steps.yaml")).mixed.e == pytest.approx(TRUE.mixed.e, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"arrival_s": 0, "prompt_tokens": 5, "ttft_ms": 3}\n', "row 1: column output_tokens is missing"),
        (
            '{"arrival_s": 0, "prompt_tokens": 5, "output_tokens": 2, "ttft_ms": 3, "token_ms": [3, 2]}\n',
            "row 1: a token came before the one before it",
        ),
        ("arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n0,0,5,1,2\n", "row 1: prompt 0, output 5"),
        ("arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n0,5,5,1,0.5\n", "row 1: the end is missing, or before"),
        ("arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n0,nan,5,1,2\n", "row 1: a time or a length is no finite"),
        ("arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n0,5,inf,1,2\n", "row 1: a time or a length is no finite"),
        ("arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n0,5,5,1,inf\n", "row 1: the end is missing, or before"),
        ('{"arrival_s": 0, "prompt_tokens": [5], "output_tokens": 2, "ttft_ms": 3}\n', "row 1: could not convert"),
        ("prefill_tokens,num_seqs,context_tokens,seconds\n5,1,1,0\n", "row 1: seconds is 0"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(TraceError, match=told):
        calibrate(tmp_path / "log", out=tmp_path / "o.yaml")


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00noise",
        b"\x1f\x8bnoise",
        gzip.compress(b"prefill_tokens,num_seqs,context_tokens,seconds\n5,1,1,1\n")[:-9],
        b"prefill_tokens,num_seqs,context_tokens,seconds\n5,1,1,1\n\xff\n",
    ],
    ids=["noise", "no-gzip", "torn", "noise-in-a-row"],
)
def test_what_is_no_text_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(TraceError, match="log: not readable as text or gzip"):
        calibrate(tmp_path / "log", out=tmp_path / "o.yaml")


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    source = tmp_path / "log.jsonl"
    source.write_text(lines(answered(asked("seen", 5, 0.1, 1))))
    with pytest.raises(ProfileError, match="5 requests are too few"):
        calibrate(source, out=tmp_path / "o.yaml")
    with pytest.raises(UsageError, match="no run is named other; there are seen"):
        calibrate(source, out=tmp_path / "o.yaml", runs="other")
    with pytest.raises(UsageError, match=r"must end in .yaml"):
        calibrate(source, out=tmp_path / "o.txt")
    with pytest.raises(UsageError, match="write a whole number for one of block_size"):
        calibrate(source, out=tmp_path / "o.yaml", set_=["max_num_seqs=many"])
    assert not (tmp_path / "o.yaml").exists()
