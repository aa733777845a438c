"""Steps of the time of day, by hours, forward and back: durations, timers and rows do not feel them, operators do."""

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.gateway.app import App, Promise
from plimsoll.gateway.clock import ClockWatch, wall_clock
from plimsoll.governor.decisions import Settle
from plimsoll.slo.outcome import Outcome, Reason
from plimsoll.storage.journal import Journal
from tests.gateway.doubles import RawClient, post
from tests.gateway.liveapp import KEY, policy_for
from tests.gateway.tinyengine import Engine

HOUR = 3600.0
BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":4,"stream":true}'


class SteppedTime:
    """A time of day that somebody sets."""

    def __init__(self) -> None:
        self.by = 0.0

    def __call__(self) -> float:
        return time.time() + self.by


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=20))
def test_our_clock_follows_the_monotonic_one_alone(steps: list[tuple[float, float]]) -> None:
    now, day = [5.0], [1.8e9]
    clock = wall_clock(lambda: day[0], lambda: now[0])
    assert clock() == pytest.approx(1.8e9)
    for passed, stepped in steps:
        before = clock()
        now[0] += passed
        day[0] += passed + stepped
        assert clock() - before == pytest.approx(passed, abs=1e-5)


def test_a_step_is_told_once() -> None:
    day = [1000.0]
    watch = ClockWatch(lambda: 1000.0, lambda: day[0])
    assert watch.step() is None
    day[0] += HOUR
    assert watch.step() == HOUR
    assert watch.step() is None
    day[0] += 0.5
    assert watch.step() is None, "a second's drift is nobody's step"
    day[0] -= 2 * HOUR
    assert watch.step() == pytest.approx(0.5 - HOUR)
    assert watch.ahead() == pytest.approx(0.5 - HOUR)


@pytest.mark.parametrize("hours", [-5, 5])
def test_rows_and_timers_of_a_live_gateway_do_not_feel_it(tmp_path: Path, hours: int) -> None:
    """The time of day is set while one request streams and another waits for its turn, which the first one holds."""

    async def test() -> None:
        engine = await Engine().start()
        engine.gap = 0.1
        day = SteppedTime()
        clock = wall_clock(day)
        policy = policy_for(engine.url)
        app = App(Promise(policy, {}), Journal.open(tmp_path, clock=clock), clock)
        settled: list[Settle] = []
        app.driver.carrier.settled.append(settled.append)
        try:
            port = await app.listen("127.0.0.1", 0)
            client = RawClient(*await asyncio.open_connection("127.0.0.1", port))
            began = time.time()
            await client.send(post(BODY, b"Authorization: Bearer " + KEY.encode() + b"\r\n"))
            await asyncio.sleep(0.15)
            day.by = hours * HOUR
            assert b"[DONE]" in (await client.answer())[1]
            await client.close()
        finally:
            await app.close()
            await engine.stop()
        (record,) = [settle.record for settle in settled]
        assert (record.outcome, record.reason) == (Outcome.COMPLETED, Reason.DONE)
        assert began - 1.0 < record.arrived_at < began + 5.0
        assert record.ttft is not None
        assert record.e2e is not None
        assert record.itl_max is not None
        assert 0.09 < record.ttft < record.e2e < 5.0
        assert record.itl_max < 5.0
        assert ClockWatch(clock, day).ahead() == pytest.approx(hours * HOUR, abs=1.0)

    asyncio.run(test())
