"""`plimsoll diagnose` and `plimsoll explain` on a data directory, as they are run."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from plimsoll.console.sayings import said
from plimsoll.governor.decisions import Settle
from plimsoll.requestlog.record import format_request_id
from plimsoll.storage.journal import Journal
from tests.analytics.records import POLICY, POLICY_TEXT, START, record
from tests.cli.running import Inside


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of acme's 200 requests the 80 in the middle wait 3 s in our queue while batch holds the pool; the others none."""
    root = tmp_path_factory.mktemp("diagnose") / "data"
    journal = Journal.open(root, 1)
    journal.policy(START, POLICY)
    first = journal.next_request_id
    big = record(first + 999, 55.0, tenant="batch", tier="bronze", ttft=1.0, lasted=120.0)
    rows = [replace(big, dispatched_at=START + 55.0, kv_blocks_reserved=900)]
    for i in range(200):
        waited = 3.0 if 60 <= i < 140 else 0.0
        row = record(first + i, float(i), ttft=0.3 + waited)
        rows.append(
            replace(row, dispatched_at=START + i + waited, client_request_id=f"mine-{i // 2}", kv_blocks_reserved=1)
        )
    rows[151] = replace(
        rows[151], session="night-build", prefill="http://prefill-1", hedge="won", prompt_entropy=3.25,
        predicted_ttft=0.25, predicted_tpot=0.04,
        engine_rtt=0.0015, engine_retransmits=2, client_rtt=0.08, client_retransmits=0,
    )  # fmt: skip
    for row in rows:
        journal.settle(Settle(row, ()))
    journal.flush()
    journal.close()
    (root / "policy.yaml").write_text(POLICY_TEXT)
    return root


def test_the_three_steps(home: Path, inside: Inside) -> None:
    data = json.loads(inside("diagnose", str(home), "--json").stdout)
    assert (data["num"], [each["tenant"] for each in data["tenants"]]) == (201, ["acme"])
    (acme,) = data["tenants"]
    assert acme["since"] == pytest.approx(START + 60, abs=3)
    assert acme["until"] == pytest.approx(START + 140, abs=3)
    assert acme["waited_for"] == {"batch": pytest.approx(1.0, abs=0.005)}
    assert acme["mechanism"] == "neighbour interference"
    assert acme["excess"][0] == {"part": "gateway_queue", "seconds": pytest.approx(3.0, abs=0.1), "how": "measured"}
    crowding = data["crowding"]
    row = crowding["seconds"][crowding["victims"].index("acme")]
    assert row[crowding["culprits"].index("batch")] == pytest.approx(80 * 3.0, rel=0.01)
    text = inside("diagnose", str(home)).stdout
    for words in ("Who waited for whose requests", "neighbour interference", "batch", "without an engine"):
        assert words in text


def test_a_quiet_window_has_nothing_to_explain(home: Path, inside: Inside) -> None:
    assert "nothing to explain" in inside("diagnose", str(home), "--since", "50s").stdout
    named = json.loads(inside("diagnose", str(home), "--since", "50s", "--tenant", "acme", "--json").stdout)
    assert named["tenants"][0]["mechanism"] == "no fault"


def test_one_request_on_one_screen(home: Path, inside: Inside) -> None:
    number = json.loads(inside("diagnose", str(home), "--json").stdout)["num"]
    assert number == 201
    journal_first = Journal.open(home.parent / "other", 1).next_request_id
    ours = format_request_id(journal_first + 100)
    data = json.loads(inside("explain", str(home), ours, "--json").stdout)
    assert (data["request"], data["tenant"], data["outcome"]) == (ours, "acme", "completed")
    assert [round(each["after"], 3) for each in data["timeline"]] == [0.0, 3.0, 3.3, 3.75]
    assert data["parts"][0] == {"part": "gateway_queue", "seconds": pytest.approx(3.0), "share": pytest.approx(0.8),
                                "how": "measured"}  # fmt: skip
    assert data["waited_for"] == {"acme": pytest.approx(0.002, abs=0.002), "batch": pytest.approx(3.0, abs=0.005)}
    assert data["broke"] == ["ttft, charged ours"]
    assert not data["modelled"]
    text = inside("explain", str(home), ours).stdout
    for words in ("missed ttft", "gateway_queue", "80.0%", "measured", "dispatched"):
        assert words in text


def test_columns_that_not_every_row_has_are_shown_where_they_are(home: Path, inside: Inside) -> None:
    first = Journal.open(home.parent / "another", 1).next_request_id
    ours, plain = format_request_id(first + 150), format_request_id(first + 149)
    data = json.loads(inside("explain", str(home), ours, "--json").stdout)
    assert data["also"] == {
        "session": "night-build", "prefill": "http://prefill-1", "hedge": "won", "prompt_entropy": 3.25,
        "predicted_ttft": 0.25, "predicted_tpot": 0.04,
        "engine_rtt": 0.0015, "engine_retransmits": 2, "client_rtt": 0.08, "client_retransmits": 0,
    }  # fmt: skip
    text = " ".join(inside("explain", str(home), ours).stdout.split())
    for words in (
        "The run night-build",
        "computed on http://prefill-1",
        "it was first, and answered it",
        "3.2 bits a byte",
        "its first token within 250ms, a token after it in 40ms",
        "to the engine: round trip 1.5ms, 2 segments sent again",
        "to the client: round trip 80ms, 0 segments sent again",
    ):
        assert words in text
    for sentence in data["told"]:
        assert said(sentence, "zh") != sentence, "every sentence has its Chinese"
    bare = json.loads(inside("explain", str(home), plain, "--json").stdout)
    assert (bare["also"], bare["told"]) == ({}, [])


def test_ids_that_name_none_or_several(home: Path, inside: Inside) -> None:
    unknown = inside("explain", str(home), "req-0000000000000001")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no request in" in unknown.stderr
    assert "2 requests carry the client's id 'mine-7'" in inside("explain", str(home), "mine-7").stderr


def test_tails_by_labels_and_slices(home: Path, inside: Inside) -> None:
    data = json.loads(inside("tails", str(home), "--by", "tenant", "--every", "1min", "--json").stdout)
    assert data["num"] == sum(group["num"] for group in data["groups"]) == 201
    assert {group["labels"]["tenant"] for group in data["groups"]} == {"acme", "batch"}
    text = inside("tails", str(home)).stdout
    for words in ("TTFT p99÷p50", "acme", "gold", "all"):
        assert words in text
    wrong = inside("tails", str(home), "--by", "tenant,colour")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no label is named 'colour'; known: tenant, tier" in wrong.stderr
    assert "more than 20000 slices" in inside("tails", str(home), "--every", "1ms").stderr


def test_the_journal_is_shown_and_searched(home: Path, inside: Inside) -> None:
    lines = inside("journal", str(home), "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["policy"]
    assert f"policy {POLICY.version} came into force" in inside("journal", str(home)).stdout
    assert "Nothing of that kind" in inside("journal", str(home), "--kind", "request").stdout
    assert "no kind of entry is named 'rumour'" in inside("journal", str(home), "--kind", "rumour").stderr
