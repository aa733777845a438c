"""`plimsoll policy explain`, against a file alone and against a running gateway."""

import asyncio
import json
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from plimsoll.cli.policy_explain import path_in
from plimsoll.governor.events import RequestArrived
from plimsoll.governor.snapshot import Snapshot
from plimsoll.storage.journal import Journal
from tests.cli.running import Inside
from tests.cli.running import run as run_alone
from tests.cli.test_capability import CHOICE
from tests.gateway.liveapp import CHAT, policy_for, running
from tests.gateway.tinyengine import engines, until
from tests.storage.test_capabilities import BEGIN, write

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "policy.yaml")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def test_a_policy_file_alone_says_where_a_request_would_go(run: Inside) -> None:
    told = run(
        "policy", "explain", EXAMPLE, "--tenant", "batch", "--model", "llama-3.1-70b", "--prompt-tokens", "40000"
    )
    assert told.returncode == 0
    assert "dispatch to http://10.0.0.9:8000 (fits)" in told.stdout
    assert "an empty service" in told.stdout


def test_with_a_log_it_knows_what_models_have_shown(run: Inside, tmp_path: Path) -> None:
    with closing(Journal.open(tmp_path)) as journal:
        for number in range(300):
            write(journal, BEGIN + number, first=0.5)
    policy = tmp_path / "choice.yaml"
    policy.write_text(CHOICE.replace(", built_for: 50ms", ""))
    asked = ("policy", "explain", str(policy), "--model", "x")
    assert "dispatch to http://r1 " in run(*asked).stdout, "nothing is known: the best"
    told = run(*asked, "--log", str(tmp_path))
    assert "dispatch to http://r4 " in told.stdout, "the best is too slow"
    assert run(*asked, "--log", str(tmp_path), "--admin", "http://127.0.0.1:1").returncode == 2
    assert "no data directory" in run(*asked, "--log", str(tmp_path / "nowhere")).stderr


def test_a_body_is_read_as_the_gateway_reads_it(run: Inside, tmp_path: Path) -> None:
    body = tmp_path / "request.json"
    messages = [{"role": "user", "content": "word " * 4000}]
    body.write_text(json.dumps({"model": "llama-3.1-70b", "messages": messages, "max_tokens": 64, "n": 2}))
    told = run("policy", "explain", EXAMPLE, str(body), "--tenant", "acme", "--json")
    path = json.loads(told.stdout)
    assert (path["decision"], path["pool"], path["tier"]) == ("dispatch", "chat", "gold")
    (reservation,) = [step for step in path["steps"] if step["step"] == "reservation"]
    assert reservation["answer"].endswith("2 × 64 output tokens")
    assert 4500 < int(reservation["answer"].split()[0]) < 5500


def test_a_body_may_come_by_standard_input() -> None:
    body = '{"model": "llama-3.1-70b", "messages": [{"role": "user", "content": "word word"}]}'
    told = run_alone("policy", "explain", EXAMPLE, "-", "--tenant", "acme", "--json", given=body)
    assert (told.returncode, told.stderr) == (0, "")
    assert json.loads(told.stdout)["pool"] == "chat"


def test_no_prompt_tokens_are_none(run: Inside) -> None:
    told = run(
        "policy", "explain", EXAMPLE, "--tenant", "acme", "--model", "llama-3.1-70b", "--prompt-tokens", "0", "--json"
    )
    (reservation,) = [step for step in json.loads(told.stdout)["steps"] if step["step"] == "reservation"]
    assert reservation["answer"].startswith("0 prompt")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which tenant: --tenant acme | globex | batch"),
        (["--tenat", "acme"], "unknown option: --tenat"),
        (["--tenant", "acme"], "say which model: --model llama-3.1-70b | llama-3.1-8b"),
        (["/nowhere.json", "--tenant", "acme"], "cannot read the request /nowhere.json"),
        (["--tenant", "acme", "--model", "llama-3.1-70b", "--admin", "127.0.0.1:1"], "must be a URL"),
        (["--tenant", "acme", "--model", "llama-3.1-70b", "--admin", "http://127.0.0.1:1"], "gives no snapshot"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(run: Inside, arguments: list[str], words: str) -> None:
    told = run("policy", "explain", EXAMPLE, *arguments)
    assert told.returncode == 2
    assert words in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_body_that_is_no_request_is_told(run: Inside, tmp_path: Path) -> None:
    body = tmp_path / "request.json"
    for text, words in (("[]", "is no JSON object"), ('{"messages": 3}', "would answer 400 (bad_request)")):
        body.write_text(text)
        told = run("policy", "explain", EXAMPLE, str(body), "--tenant", "acme")
        assert (told.returncode, words in told.stderr) == (2, True), told.stderr


def test_a_running_gateways_snapshot_says_what_is_in_the_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,):
            policy = policy_for(engine.url)
            (pool,) = policy.pools
            policy = msgspec.structs.replace(policy, pools=(msgspec.structs.replace(pool, max_concurrency=1),))
            engine.gap = 0.5
            async with running(policy, tmp_path) as (app, client):
                waiting = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT | {"max_tokens": 2000}))
                await until(lambda: app.governor.snapshot(app.clock()).pools[0].in_flight)
                told = msgspec.json.encode(app.governor.snapshot(app.clock()))
                snapshot = msgspec.json.decode(told, type=Snapshot)
                path = path_in(policy, RequestArrived(snapshot.at, 1, "acme", "m", 10), snapshot)
                assert path.decision == "enqueue"
                assert path.replicas[0].why_not == "all its 1 slots are taken"
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(scenario())
