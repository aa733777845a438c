"""Plugins around a request through a whole gateway: a real guardrail service, a real engine, a real journal."""

import asyncio
import base64
import json
import logging
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from plimsoll.gateway.app import Promise
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.plugins import OnError, Plugin
from plimsoll.policy.policy import Policy
from plimsoll.policy.tiers import DEFAULT_AVAILABILITY
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.slo.verdict import Judgement
from tests.gateway.guardpeer import Guard
from tests.gateway.liveapp import CHAT, policy_for, records, running
from tests.gateway.scripted import run
from tests.gateway.tinyengine import Engine, engines, until

SECRET = "the prompt that nobody may keep"
ASKED = CHAT | {"messages": [{"role": "user", "content": SECRET}], "stream": True}


def guard_rules(guard: Guard, **more: Any) -> Plugin:
    settings: dict[str, str] = {"url": guard.url, **more.pop("settings", {})}
    return Plugin("guard", settings=json.dumps(settings), **more)


def policy(engine: Engine, *plugins: Plugin) -> Policy:
    made = policy_for(engine.url)
    promised = (Objective("ttft", Sli.TTFT, 0.3, DEFAULT_AVAILABILITY.target), DEFAULT_AVAILABILITY)
    return replace(made, plugins=plugins, tiers=(replace(made.tiers[0], objectives=promised),))


async def ask(client: httpx.AsyncClient, **members: Any) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=ASKED | members)


def test_one_that_may_pass_passes_and_its_check_has_a_part_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            guard.delay = 0.4
            async with running(policy(engine, guard_rules(guard)), tmp_path) as (app, client):
                answer = await ask(client)
                assert answer.text.endswith("data: [DONE]\n\n")
                assert app.driver.num_open == 0
            (question,) = guard.asked
            sent = json.dumps(ASKED, separators=(",", ":"), ensure_ascii=False).encode()
            assert b'"request":' + sent in guard.bodies[0], "the client's own bytes"
            assert question["request_id"] == answer.headers["x-plimsoll-request-id"]
            assert {name: question[name] for name in ("tenant", "tier", "model", "endpoint", "cause")} == {
                "tenant": "acme", "tier": "gold", "model": "m", "endpoint": "chat", "cause": "",
            }  # fmt: skip
            assert "Authorization" not in guard.headers[0], "the tenant's key is not the guard's"

    run(scenario)
    (told,) = records(tmp_path)
    assert (told.outcome, told.plugins) == (Outcome.COMPLETED, "guard:allow")
    assert told.plugin_time is not None
    assert told.dispatched_at is not None
    assert told.ttft is not None
    assert told.plugin_time >= 0.4
    assert told.ttft > told.plugin_time
    assert told.dispatched_at - told.arrived_at >= 0.4, "it was sent after the check"
    assert told.queued_for is not None
    assert told.queued_for < 0.1, "waiting for a plugin is no queue"
    verdicts = {verdict.objective: verdict.judgement for verdict in told.verdicts}
    assert verdicts["ttft"] is Judgement.BAD, "0.3 s to the first token were promised: the check is our own time"


def test_one_that_may_not_is_refused_with_the_reason_and_reaches_no_engine(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            guard.answer = {"allow": False, "reason": "it asks for a medical diagnosis"}
            async with running(policy(engine, guard_rules(guard)), tmp_path) as (app, client):
                answer = await ask(client)
                told = answer.json()
                assert (answer.status_code, told["plimsoll"]["reason"]) == (400, "plugin_denied")
                assert told["error"]["type"] == "invalid_request_error"
                assert told["error"]["message"].endswith("guard: it asks for a medical diagnosis")
                assert answer.headers["x-plimsoll-reason"] == "plugin_denied"
                guard.answer = {"allow": True}
                assert (await ask(client)).status_code == 200, "the connection and the chain go on"
                assert len(engine.bodies) == 1
                assert app.driver.num_open == 0

    run(scenario)
    denied, passed = records(tmp_path)
    assert (denied.outcome, denied.reason, denied.plugins) == (Outcome.REJECTED, Reason.PLUGIN_DENIED, "guard:deny")
    assert {verdict.judgement for verdict in denied.verdicts} == {Judgement.EXCLUDED}
    assert passed.outcome is Outcome.COMPLETED
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"medical" not in kept
    assert SECRET.encode() not in kept


def broken(guard: Guard, how: str) -> None:
    """One of the ways in which a service fails."""
    if how == "slow":
        guard.delay = 5.0
    elif how == "error":
        guard.status = 500
    elif how == "redirect":
        guard.status = 302
    elif how == "garbage":
        guard.raw = b"<html>sure</html>"
    elif how == "another shape":
        guard.answer = {"verdict": "fine"}
    elif how == "not a flag":
        guard.answer = {"allow": "no"}
    elif how == "endless":
        guard.raw = b'{"allow": true, "reason": "' + b"x" * 100_000 + b'"}'


FAILURES = {
    "slow": "timeout", "error": "error", "redirect": "error", "garbage": "error", "another shape": "error",
    "not a flag": "error", "endless": "error", "gone": "error",
}  # fmt: skip


@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("on_error", list(OnError))
def test_one_that_fails_costs_one_request_at_most(
    tmp_path: Path, how: str, on_error: OnError, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            broken(guard, how)
            rules = guard_rules(guard, timeout=0.2 if how == "slow" else 5.0, on_error=on_error)
            if how == "gone":
                with socket.create_server(("127.0.0.1", 0)) as free:
                    url = f"http://127.0.0.1:{free.getsockname()[1]}/check"
                rules = replace(rules, settings=json.dumps({"url": url}))
            async with running(policy(engine, rules), tmp_path) as (_, client):
                answer = await ask(client)
                if on_error is OnError.PASS:
                    assert answer.status_code == 200
                else:
                    assert (answer.status_code, answer.json()["plimsoll"]["reason"]) == (503, "plugin_failed")
                    assert len(engine.bodies) == 0
                if how != "gone":
                    guard.delay, guard.status, guard.raw, guard.answer = 0.0, 200, None, {"allow": True}
                    assert (await ask(client)).status_code == 200

    with caplog.at_level(logging.DEBUG, "plimsoll"):
        run(scenario)
    first = records(tmp_path)[0]
    assert first.plugins == f"guard:{FAILURES[how]}"
    assert first.plugin_time is not None
    assert (first.plugin_time < 2.0) is True, "its time is bounded"
    assert "plugin guard failed (1 times now)" in caplog.text
    assert SECRET not in caplog.text


def test_a_client_that_leaves_ends_its_check(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            guard.delay = 30.0
            async with running(policy(engine, guard_rules(guard, timeout=60.0)), tmp_path) as (app, client):
                asking = asyncio.create_task(ask(client))
                await until(lambda: guard.num_running == 1)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                await until(lambda: guard.num_running == 0)
                guard.delay = 0.0
                assert (await ask(client)).status_code == 200
                assert app.driver.num_open == 0
                counts = app.governor.snapshot(app.clock()).counts[0].by_state
                assert (counts["rejected"], counts["completed"]) == (1, 1)

    run(scenario)
    assert [row.reason for row in records(tmp_path)] == [Reason.CLIENT_LEFT, Reason.DONE]


def test_no_more_at_once_than_it_may(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            guard.delay = 0.5
            rules = guard_rules(guard, concurrency=2, timeout=5.0)
            async with running(policy(engine, rules), tmp_path) as (_, client):
                answers = await asyncio.gather(*(ask(client) for _ in range(5)))
                assert sorted(answer.status_code for answer in answers) == [200, 200, 503, 503, 503]
                assert len(guard.asked) == 2

    run(scenario)
    assert sorted(row.plugins for row in records(tmp_path)) == ["guard:allow"] * 2 + ["guard:busy"] * 3


def test_what_is_no_json_is_shown_to_it_all_the_same(tmp_path: Path) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n'

    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            guard.answer = {"allow": False, "reason": "no sound"}
            async with running(policy(engine, guard_rules(guard)), tmp_path) as (_, client):
                kind = {"content-type": "multipart/form-data; boundary=x"}
                answer = await client.post("/v1/audio/transcriptions", content=form, headers=kind)
                assert answer.status_code == 400
            (question,) = guard.asked
            assert base64.b64decode(question["body"]) == form
            assert (question["request"], question["content_type"]) == (None, kind["content-type"])

    run(scenario)


def test_a_key_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARD_KEY", "sk-guard")

    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            rules = guard_rules(guard, settings={"key": "GUARD_KEY"})
            async with running(policy(engine, rules), tmp_path) as (_, client):
                assert (await ask(client)).status_code == 200
            assert guard.headers[0]["Authorization"] == "Bearer sk-guard"

    run(scenario)


def test_a_reload_takes_it_away_under_a_request_in_hand(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            guard.delay = 0.5
            made = policy(engine, guard_rules(guard))
            async with running(made, tmp_path) as (app, client):
                asking = asyncio.create_task(ask(client))
                await until(lambda: guard.num_running == 1)
                await app.change_policy(Promise(replace(made, plugins=(), version="v2"), {}))
                assert (await ask(client)).status_code == 200
                assert (await asking).status_code == 200
                assert len(guard.asked) == 1

    run(scenario)
    assert {row.plugins for row in records(tmp_path)} == {"", "guard:allow"}


def test_a_large_body_is_looked_at_whole(tmp_path: Path) -> None:
    long = "word " * 100_000

    async def scenario() -> None:
        async with engines() as (engine,), Guard() as guard:
            made = policy(engine, guard_rules(guard, timeout=10.0))
            pool = replace(made.pools[0], max_context=1_000_000)
            async with running(replace(made, pools=(pool,)), tmp_path) as (_, client):
                await ask(client, messages=[{"role": "user", "content": long}])
            assert guard.asked[0]["request"]["messages"][0]["content"] == long

    run(scenario)
