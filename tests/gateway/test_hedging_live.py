"""Hedging through a whole gateway: a replica that hangs costs a client a moment, and one row says so."""

from pathlib import Path

from msgspec.structs import replace

from plimsoll.policy.policy import Hedging, Scheduling
from plimsoll.requestlog.codec import RowKind
from plimsoll.storage.reader import read_rows
from plimsoll.storage.rows import decode_settle
from tests.gateway.liveapp import CHAT, policy_for, running
from tests.gateway.scripted import run
from tests.gateway.tinyengine import engines


def test_a_stream_behind_a_replica_that_hangs_is_answered_by_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with engines(2) as (one, two):
            rules = Scheduling(routing="round_robin", hedging=Hedging(at_least=0.3))
            policy = replace(policy_for(one.url, two.url), scheduling=rules)
            async with running(policy, tmp_path) as (app, client):
                body = CHAT | {"stream": True}
                for _ in range(110):
                    await client.post("/v1/chat/completions", json=body)
                one.gap = 30.0
                hedged = 0
                while not hedged:  # round robin: at the latest the second of two meets it
                    answer = await client.post("/v1/chat/completions", json=body)
                    assert answer.text.count("word ") == 3
                    hedged = app.governor.snapshot(app.clock()).pools[0].hedges
                assert app.governor.snapshot(app.clock()).pools[0].hedges_won == 1
                assert all(each.in_flight == 0 for each in app.governor.snapshot(app.clock()).pools[0].replicas)
        rows = [
            decode_settle(row.payload).record
            for row in read_rows(tmp_path / "journal", 0)
            if row.kind == RowKind.SETTLE
        ]
        assert [record.replica for record in rows if record.hedge] == [two.url]
        assert rows[-1].ttft is not None
        assert rows[-1].ttft < 5.0

    run(scenario)
