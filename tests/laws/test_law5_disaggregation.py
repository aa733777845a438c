"""Law 5 for prefill and decode on engines of their own: plain engines, run anew with each request that comes."""

from fractions import Fraction
from math import inf

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.features import Disaggregation
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.sim.engines import engine_for
from plimsoll.sim.job import FINISHED, FIRST_TOKEN, Job
from tests.laws.test_law5_jumps import EPOCH, MICROSECOND, Run, distance, histories, profiles
from tests.sim.reference import ReferenceReplica, Request


class PlainPair:
    """Who goes where, decided one request after another; engines that nobody hurries."""

    def __init__(self, profile: EngineProfile) -> None:
        self.profile = replace(profile, disaggregation=None)
        assert profile.disaggregation
        self.parts = profile.disaggregation
        self.ends: list[float] = []

    def run(self, requests: list[Request]) -> None:
        prompts = self.prefilled(requests)
        links = [Fraction(0)] * self.parts.prefill_replicas
        came: list[list[Request]] = [[] for _ in range(self.parts.decode_replicas)]
        for prompt, number in sorted(prompts, key=lambda pair: (ended(pair[0]), pair[1], pair[0].place)):
            request = next(r for r in requests if r.id == prompt.id)
            request.cached = prompt.cached
            if request.output == 0:
                request.finished_at = prompt.finished_at
                continue
            took = Fraction(self.parts.latency + request.prompt * self.parts.bytes_per_token / self.parts.bandwidth)
            links[number] = max(links[number], ended(prompt)) + took
            busy = [sum(ended(r) > ended(prompt) for r in self.solved(there)) for there in came]
            decode = busy.index(min(busy))
            came[decode].append(self.moved(request, links[number]))
        for there in came:
            for done in self.solved(there, count=True):
                request = next(r for r in requests if r.id == done.id)
                request.tokens_at, request.finished_at = done.tokens_at, done.finished_at
                request.preemptions = done.preemptions

    def prefilled(self, requests: list[Request]) -> list[tuple[Request, int]]:
        engines: list[list[Request]] = [[] for _ in range(self.parts.prefill_replicas)]
        for request in requests:
            ahead = [sum(r.prompt for r in self.solved(there) if ended(r) > request.arrival) for there in engines]
            engines[ahead.index(min(ahead))].append(replace_request(request))
        return [(r, number) for number, there in enumerate(engines) for r in self.solved(there, count=True)]

    def solved(self, requests: list[Request], count: bool = False) -> list[Request]:
        """The same requests after an engine has served them."""
        fresh = [replace_request(request, request.output) for request in requests]
        for new, old in zip(fresh, requests, strict=True):
            new.loaded, new.cached = old.loaded, None
        engine = ReferenceReplica(self.profile)
        engine.run(fresh)
        for place, request in enumerate(sorted(fresh, key=lambda r: (ended(r), r.order))):
            request.place = place
        if count:
            self.ends += [float(end) for end in engine.ends]
        return fresh

    @staticmethod
    def moved(request: Request, at: Fraction) -> Request:
        there = replace_request(request, request.output)
        there.arrival, there.loaded = at, request.prompt - 1
        return there


def ended(request: Request) -> Fraction:
    assert request.finished_at is not None
    return request.finished_at


def replace_request(request: Request, output: int = 0) -> Request:
    return Request(request.id, request.arrival, request.prompt, output, request.hashes, request.hash_tokens)


parts = st.builds(
    Disaggregation,
    source=st.just("hypothesis"),
    prefill_replicas=st.integers(1, 2),
    decode_replicas=st.integers(1, 3),
    bytes_per_token=st.just(1000.0),
    bandwidth=st.sampled_from([1e5, 1e7]),
    latency=st.sampled_from([0.0, 0.003]),
)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_pair_agrees_with_its_plain_parts(data: st.DataObject) -> None:
    profile = replace(data.draw(profiles), disaggregation=data.draw(parts), priority_scheduling=False)
    requests = data.draw(histories(profile, data.draw(st.integers(1, 8))))
    for request in requests:
        request.cancel_at = None
        request.arrival += Fraction(request.id, 10**4)  # none at one instant
    pair = PlainPair(profile)
    pair.run(requests)
    ends = sorted(pair.ends)
    assume(all(distance(ends, float(r.arrival)) > MICROSECOND for r in requests))
    epoch = data.draw(st.sampled_from([0.0, EPOCH]))
    run = Run(engine_for(profile, "r", epoch), requests, [], epoch)
    for request in requests:
        run.same_tokens(request)
        assert run.jobs[request.id].cached_tokens == (request.cached if profile.prefix_caching else 0)
    assert run.engine.num_jobs == 0
    event(f"preempted {any(r.preemptions for r in requests)}")


@pytest.mark.parametrize("at", [0.05, 0.5, 1.5, 3.0])  # computing, travelling, decoding, ended
def test_cancelling_at_any_stage_leaves_nothing_behind(at: float) -> None:
    step = StepCoefficients(a=0.1)
    parts = Disaggregation("a test", 1, 1, 1000.0, 1e6, 0.8)
    pair = engine_for(EngineProfile("pair", "a test", step, step, num_blocks=100, disaggregation=parts), "r")
    pair.submit(0.0, Job(1, 100, 10))
    outputs = pair.advance(at)
    assert pair.cancel(1) == (at < 2.0)
    assert [output.kind for output in outputs] == [FIRST_TOKEN, FINISHED][: (at > 1.1) + (at > 2.0)]
    assert not pair.advance(9.0)
    assert (pair.num_jobs, pair.next_at(), pair.report(9.0).kv_usage) == (0, inf, 0.0)
