"""Law 5: a shortcut may not be an approximation. Jumps and extents against steps and blocks, on every token."""

from bisect import bisect
from collections.abc import Iterator
from fractions import Fraction
from math import inf

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.sim.engine import Engine
from plimsoll.sim.job import FINISHED, OUTGROWN, Job
from plimsoll.sim.replica import Replica
from tests.sim.reference import ReferenceReplica, Request

MICROSECOND = 1e-6
EPOCH = 1_764_000_000.0

decode = st.builds(
    StepCoefficients, a=st.floats(1e-3, 0.05), f=st.floats(0, 1e-3), g=st.sampled_from([0.0, 1e-7, 3e-6])
)
mixed = st.builds(
    StepCoefficients, a=st.floats(1e-3, 0.05), e=st.floats(0, 1e-4), b=st.floats(0, 2e-4), g=st.floats(0, 1e-6),
    pw=st.floats(0, 1e-7), kp=st.floats(0, 1e-6),
)  # fmt: skip
profiles = st.builds(
    EngineProfile,
    name=st.just("drawn"),
    source=st.just("hypothesis"),
    decode=decode,
    mixed=mixed,
    host_per_sequence=st.sampled_from([0.0, 1e-4]),
    block_size=st.sampled_from([1, 4, 16]),
    num_blocks=st.integers(40, 120),
    max_num_seqs=st.integers(1, 12),
    max_batched_tokens=st.sampled_from([16, 64, 256]),
    prefix_caching=st.booleans(),
    priority_scheduling=st.sampled_from([False, False, True]),
    reserve_prompt=st.booleans(),
    fitted_max_tokens=st.sampled_from([0, 3, 20, 100]),
    fitted_max_context=st.sampled_from([0, 30, 300]),
)


@st.composite
def histories(draw: st.DrawFn, profile: EngineProfile, num: int) -> list[Request]:
    """Requests that the engine can hold, some with shared prefixes, some cancelled."""
    size, capacity = profile.block_size, profile.block_size * profile.num_blocks
    requests, at, patient = [], 0.0, draw(st.booleans())
    for number in range(1, num + 1):
        at += draw(st.sampled_from([0.0, 0.01, 0.3, 20.0])) * draw(st.floats(0.1, 1.9))
        prompt = draw(st.integers(1, max(1, capacity // 3)))
        output = draw(st.integers(0, min(400, capacity - prompt)))
        family = draw(st.integers(0, 2))
        shared = draw(st.integers(0, prompt // size))
        hashes = tuple(family * 1000 + i if i < shared else number * 10_000 + i for i in range(prompt // size))
        cancel = None if patient else draw(st.sampled_from([None, None, None, 0.001, 0.05, 2.0]))
        requests.append(
            Request(
                id=number,
                arrival=Fraction(at),
                prompt=prompt,
                output=output,
                hashes=hashes,
                hash_tokens=size,
                priority=draw(st.integers(0, 2)),
                cancel_at=None if cancel is None else Fraction(at) + Fraction(cancel),
            )
        )
    return requests


class Run:
    """A history on an engine, which is also asked at odd instants."""

    def __init__(self, engine: Engine, requests: list[Request], polls: list[float], epoch: float) -> None:
        self.engine = engine
        self.jobs: dict[int, Job] = {}
        self.tokens: dict[int, list[tuple[float, float]]] = {}
        self.outgrown: dict[int, list[float]] = {}
        self.epoch = epoch
        events = [(float(r.arrival), 0, r) for r in requests]
        events += [(float(r.cancel_at), 1, r) for r in requests if r.cancel_at is not None]
        events += [(at, 2, requests[0]) for at in polls]
        for at, kind, request in sorted(events, key=lambda event: (event[0], event[1], event[2].id)):
            self.advance(at + epoch)
            if kind == 0:
                self.submit(at + epoch, request)
            elif kind == 1:
                self.engine.cancel(request.id)
        self.advance(inf)

    def submit(self, at: float, request: Request) -> None:
        job = Job(request.id, request.prompt, request.output, request.hashes, request.hash_tokens)
        job.priority, job.tenant, job.adapter = request.priority, request.tenant, request.adapter
        job.mark = request.id % 4 * 7
        self.jobs[request.id] = job
        self.engine.submit(at, job)

    def advance(self, until: float) -> None:
        while (at := self.engine.next_at()) <= until and at < inf:
            for output in self.engine.advance(at):
                if output.kind == OUTGROWN:
                    self.outgrown.setdefault(output.job.id, []).append(output.at - self.epoch)
                if output.kind == FINISHED and output.job.output_tokens:
                    self.tokens[output.job.id] = list(self.instants(output.job))
            assert self.engine.next_at() > at, "what was to happen has happened"
        if until < inf:
            assert not self.engine.advance(until), "next_at tells when something happens"

    def instants(self, job: Job) -> Iterator[tuple[float, float]]:
        """Of each token: as the sum of its gaps, and from the start of its run."""
        at = job.first_token_at - self.epoch
        yield at, at
        for run in self.engine.runs(job):
            start = run.start_at - self.epoch
            for k in range(run.num):
                at += run.first_gap + run.increment * k
                yield at, start + run.first_gap * (k + 1) + run.increment * (k * (k + 1) / 2)

    def same_tokens(self, request: Request) -> None:
        """As many as the twin made, when it made them."""
        ours = self.tokens.get(request.id, [])
        assert len(ours) == len(request.tokens_at) == request.output
        for mine, theirs in zip(ours, request.tokens_at, strict=True):
            assert max(abs(Fraction(at) - theirs) for at in mine) < MICROSECOND

    def same(self, request: Request, profile: EngineProfile) -> None:
        """All that became of it."""
        if request.cancelled:
            assert request.id not in self.tokens
            return
        job = self.jobs[request.id]
        assert request.finished_at is not None
        assert job.num_preemptions == request.preemptions
        assert job.cached_tokens == (request.cached if profile.prefix_caching else 0)
        self.same_tokens(request)


def agree(profile: EngineProfile, requests: list[Request], polls: list[float], epoch: float) -> ReferenceReplica:
    reference = ReferenceReplica(profile)
    reference.run(requests)
    ends = [float(end) for end in reference.ends]
    assume(all(distance(ends, at) > MICROSECOND for at in touched(requests)))
    replica = Replica(profile)
    run = Run(replica, requests, polls, epoch)
    for request in requests:
        run.same(request, profile)
        if request.cancelled:
            continue
        marks = [7 * (request.id % 4) << k for k in range(10)] if request.id % 4 else []
        passed = [float(request.tokens_at[mark]) for mark in marks if mark < request.output]
        assert run.outgrown.get(request.id, []) == pytest.approx(passed, abs=MICROSECOND)
    assert replica.batch.kv.num_free == profile.num_blocks
    assert replica.counts().num_steps == len(ends)
    if not any(r.cancelled for r in requests):  # a cancel takes its context out of the step that runs
        assert replica.counts().num_beyond_fit == reference.num_beyond
    event(f"preempted {min(3, replica.batch.num_preemptions)}")
    event(f"hits {replica.batch.prefix_hits > 0}")
    event(f"cancelled {any(r.cancelled for r in requests)}")
    event(f"steps {len(ends) // 300 * 300}")
    return reference


def touched(requests: list[Request]) -> list[float]:
    """The instants at which somebody comes or goes, which no step may end too near to."""
    return [float(r.arrival) for r in requests] + [float(r.cancel_at) for r in requests if r.cancel_at is not None]


def distance(ends: list[float], at: float) -> float:
    index = bisect(ends, at)
    return min((abs(end - at) for end in ends[max(0, index - 1) : index + 1]), default=inf)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_jumps_agree_with_steps(data: st.DataObject) -> None:
    profile = data.draw(profiles)
    requests = data.draw(histories(profile, data.draw(st.integers(1, 12))))
    polls = data.draw(st.lists(st.floats(0, 30), max_size=5))
    agree(profile, requests, polls, data.draw(st.sampled_from([0.0, EPOCH])))
