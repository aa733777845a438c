"""Law 5 for data-parallel ranks: plain engines that choose their own batches, and one clock for all of them."""

from fractions import Fraction

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from plimsoll.engine.features import DataParallel
from plimsoll.engine.profile import EngineProfile
from plimsoll.sim.engines import engine_for
from tests.laws.test_law5_jumps import EPOCH, MICROSECOND, Run, distance, histories, profiles, touched
from tests.sim.reference import ReferenceReplica, Request


class PlainRanks:
    """All ranks begin a step together and end it with the slowest of them."""

    def __init__(self, profile: EngineProfile, num: int) -> None:
        self.ranks = [ReferenceReplica(replace(profile, data_parallel=None)) for _ in range(num)]
        self.ends: list[Fraction] = []

    def run(self, requests: list[Request]) -> None:
        now, coming = Fraction(0), sorted(requests, key=lambda r: (r.arrival, r.id))
        cancels = sorted((r for r in requests if r.cancel_at is not None), key=lambda r: (r.cancel_at or 0, r.id))
        while coming or any(rank.running or rank.waiting for rank in self.ranks):
            if not any(rank.running or rank.waiting for rank in self.ranks):
                now = coming[0].arrival
                self.enter(coming.pop(0))
            end = now + max(self.start(rank) for rank in self.ranks)
            while (coming and coming[0].arrival < end) or (cancels and (cancels[0].cancel_at or 0) < end):
                if coming and not (cancels and (cancels[0].cancel_at or 0) < coming[0].arrival):
                    self.enter(coming.pop(0))
                else:
                    self.cancel(cancels.pop(0))
            now = end
            self.ends.append(end)
            for rank in self.ranks:
                rank.now = end
                rank.deliver(rank.members or [])

    def enter(self, request: Request) -> None:
        loads = [4 * len(rank.waiting) + len(rank.running) for rank in self.ranks]
        rank = self.ranks[loads.index(min(loads))]
        rank.num_entered += 1
        request.order = rank.num_entered
        rank.waiting.append(request)

    def start(self, rank: ReferenceReplica) -> Fraction:
        rank.members = rank.schedule() if rank.running or rank.waiting else []
        return Fraction(rank.duration(rank.members)) if rank.members else Fraction(0)

    def cancel(self, request: Request) -> None:
        for rank in self.ranks:
            if request in rank.running or request in rank.waiting:
                rank.cancel(request, rank.now)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_ranks_agree_with_their_plain_twins(data: st.DataObject) -> None:
    num = data.draw(st.integers(1, 3))
    profile = replace(data.draw(profiles), data_parallel=DataParallel("hypothesis", num))
    requests = data.draw(histories(profile, data.draw(st.integers(1, 12))))
    twin = PlainRanks(profile, num)
    twin.run(requests)
    ends = [float(end) for end in twin.ends]
    assume(all(distance(ends, at) > MICROSECOND for at in touched(requests)))
    epoch = data.draw(st.sampled_from([0.0, EPOCH]))
    run = Run(engine_for(profile, "r", epoch), requests, [], epoch)
    for request in requests:
        if request.cancelled:
            continue
        assert run.jobs[request.id].num_preemptions == request.preemptions
        run.same_tokens(request)
    assert run.engine.counts().num_steps == len(ends)
    assert run.engine.report(1e12).kv_usage == 0.0
    event(f"several busy {len({job.rank for job in run.jobs.values()}) > 1}")
