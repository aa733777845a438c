"""A client that does not read delays itself: on real sockets, from its paused socket to the account of the breach."""

import asyncio
from fractions import Fraction
from hashlib import sha256
from math import inf
from pathlib import Path

from plimsoll.governor.decisions import Settle
from plimsoll.policy.objective import Objective, Sli
from plimsoll.policy.policy import GatewayRules, Policy, Pool, Tenant, Tier
from plimsoll.slo.outcome import Outcome
from plimsoll.slo.verdict import Charge, Judgement
from tests.gateway.doubles import RawClient, post
from tests.gateway.liveapp import KEY, running
from tests.gateway.scripted import END, STREAM_HEAD, Script, ScriptedEngine, chunk, json_answer, sse, token

HELD = 1.0
BODY = (
    b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}'
)


def policy(url: str) -> Policy:
    target = Fraction(99, 100)
    objectives = (
        Objective("ttft", Sli.TTFT, 0.8, target),
        Objective("itl", Sli.ITL, 0.8, target),
        Objective("e2e", Sli.E2E, 0.8, target),
        Objective("availability", Sli.AVAILABILITY, inf, target),
    )
    return Policy(
        tiers=(Tier("gold", 0, objectives=objectives),),
        tenants=(Tenant("acme", "gold", keys=("sha256:" + sha256(KEY.encode()).hexdigest(),)),),
        pools=(Pool("chat", "m", "openai", (url,), max_concurrency=4, max_context=4096),),
        gateway=GatewayRules(stream_buffer=64 * 1024, probe_every=60.0),
    )


def test_a_slow_readers_delay_is_charged_to_it(tmp_path: Path) -> None:
    event = chunk(sse(token("x" * 1000)) * 100)
    stream = Script([STREAM_HEAD, *[event] * 150, chunk(sse("[DONE]")), END])  # 16 MB, more than the kernel buffers

    async def test() -> None:
        probe = Script([json_answer(b"{}")])
        async with ScriptedEngine([probe, stream]) as engine, running(policy(engine.url), tmp_path) as (app, http):
            settled: list[Settle] = []
            app.driver.carrier.settled.append(settled.append)
            reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port, limit=1 << 26)
            client = RawClient(reader, writer)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(post(BODY, b"Authorization: Bearer " + KEY.encode() + b"\r\n"))
            await asyncio.sleep(HELD)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            _, body = await client.answer()
            assert body.endswith(sse("[DONE]"))
            await client.close()
            (settle,) = settled
        record = settle.record
        assert record.outcome is Outcome.COMPLETED
        assert 0.5 * HELD < record.client_stall < HELD + 1.0
        assert record.e2e is not None
        assert record.e2e > 0.8
        verdicts = {verdict.objective: verdict for verdict in record.verdicts}
        assert verdicts["e2e"].charge is Charge.CLIENT
        assert [verdicts[name].judgement for name in ("ttft", "itl", "availability")] == [Judgement.GOOD] * 3
        assert record.charge is Charge.CLIENT
        assert [entry.target for entry in settle.entries] == ["acme/e2e/spent:client"]

    asyncio.run(test())
