"""Engines of every form on the wall clock: each token is told once, and the end after the last one."""

import asyncio
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from plimsoll.emulator.engine import EmulatedEngine
from plimsoll.engine.features import ColdStart, DataParallel, Disaggregation, Speculation
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.sim.job import Job

PLAIN = EngineProfile("plain", "a test", StepCoefficients(a=0.01), StepCoefficients(a=0.01), num_blocks=12)
FORMS = {
    "plain, preempting": PLAIN,
    "guessing": replace(PLAIN, speculation=Speculation("a test", 2, {"default": (0.6, 0.3)}, 0.001)),
    "two ranks": replace(PLAIN, data_parallel=DataParallel("a test", 2)),
    "cold": replace(PLAIN, cold_start=ColdStart("a test", 1.0)),
    "in parts": replace(PLAIN, disaggregation=Disaggregation("a test", 1, 1, 1000.0, 1e6)),
}


@dataclass
class Counting:
    """A sink that counts."""

    tokens: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def token(self) -> None:
        assert not self.ended.is_set()
        self.tokens += 1

    def finished(self, job: Job) -> None:
        assert self.tokens == job.output_tokens
        self.ended.set()


@pytest.mark.parametrize("form", FORMS)
def test_each_token_is_told_once(form: str) -> None:
    async def test() -> None:
        engine = EmulatedEngine(FORMS[form], asyncio.get_running_loop(), speed=50.0)
        sinks = [Counting() for _ in range(4)]
        for number, sink in enumerate(sinks):
            engine.submit(Job(engine.next_id(), 20, 40 + number), sink)
        await asyncio.wait_for(asyncio.gather(*(sink.ended.wait() for sink in sinks)), 20)
        assert [sink.tokens for sink in sinks] == [40, 41, 42, 43]
        assert engine.report().kv_usage == 0.0
        engine.close()

    asyncio.run(test())
