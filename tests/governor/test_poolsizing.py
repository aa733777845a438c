"""Two pools that share replicas: each gets what it has work for, within bounds, and nothing goes to and fro."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import pytest

from plimsoll.governor.decisions import Decision, Dispatch, MoveReason, MoveStep, Reassign
from plimsoll.governor.events import PolicyChanged, RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.governor.restoring import restore
from plimsoll.governor.snapshot import PoolState, SizingState, Snapshot
from plimsoll.policy.document import examine, parse
from plimsoll.policy.policy import Policy
from tests.governor.service import Service
from tests.laws.histories import START

T = TypeVar("T", bound=Decision)
SHORT, LONG = 160, 1600
A, B, C, D = "http://a", "http://b", "http://c", "http://d"


def shared(least: int = 1, most: int = 3, mixed: str = f'["{A}", "{B}", "{C}"]', more: str = "dwell: 30s") -> Policy:
    return parse(f"""
plimsoll: 1
tiers: [{{name: gold, rank: 0, queue_timeout: 1h, queue_limit: 5000}}]
tenants: [{{name: ada, tier: gold}}]
pools:
  - {{name: mixed, model: m, engine: vllm, replicas: {mixed}, max_prompt_tokens: 1k}}
  - {{name: long, model: m, engine: vllm, replicas: ["{D}"], min_prompt_tokens: 1k,
      adaptive: {{with: mixed, min: {least}, max: {most}, {more}}}}}
""")


def every(kind: type[T], decisions: Sequence[Decision]) -> list[T]:
    return [decision for decision in decisions if isinstance(decision, kind)]


class Shared(Service):
    """A service whose replicas hold about nine long requests, told second by second what its replicas say."""

    def run(self, since: int, until: int, down: tuple[str, ...] = ()) -> list[Reassign]:
        return [move for at in range(since, until) for move in every(Reassign, self.report(float(at), down))]

    def pool(self, name: str, at: float = 0.0) -> PoolState:
        return next(pool for pool in self.governor.snapshot(START + at).pools if pool.pool == name)

    def serving(self, name: str) -> list[str]:
        return [replica.replica for replica in self.pool(name).replicas if not replica.leaving]

    def sizing(self) -> SizingState:
        found = self.pool("long").adaptive
        assert found is not None
        return found


def loaded(policy: Policy | None = None, long: int = 20) -> Shared:
    """More long prompts than their replica holds, hardly any short ones."""
    service = Shared(shared() if policy is None else policy)
    for number in range(long):
        service.ask(1.0 + number / 100.0, prompt=LONG)
    service.ask(1.9, prompt=SHORT)
    return service


def test_a_pool_with_too_much_to_do_gets_an_idle_replica_of_the_other() -> None:
    service = loaded()
    assert service.pool("long").waiting > 0
    assert service.run(2, 30) == []  # the dwell time counts from the start, too
    (move,) = service.run(30, 40)
    assert (move.from_pool, move.to_pool, move.step, move.reason) == (
        "mixed",
        "long",
        MoveStep.MOVED,
        MoveReason.DEMAND,
    )
    assert (move.num_from, move.num_to) == (2, 2)
    assert move.work_to > 1.0 > move.work_from
    assert service.serving("long") == [move.replica, D] or service.serving("long") == [D, move.replica]
    assert move.replica not in service.serving("mixed")


def test_who_waited_is_dispatched_to_it_at_once() -> None:
    service = loaded()
    service.run(2, 30)
    decisions: list[Decision] = []
    for at in range(30, 40):
        decisions += service.report(float(at))
    (move,) = every(Reassign, decisions)
    sent = {decision.replica for decision in every(Dispatch, decisions)}
    assert sent == {move.replica}


def test_a_replica_ends_what_it_runs_before_it_goes() -> None:
    service = Shared(shared())
    for number in range(3):
        service.ask(0.5 + number / 100.0, prompt=SHORT)  # one on each
    for number in range(20):
        service.ask(1.0 + number / 100.0, prompt=LONG)
    (going,) = service.run(2, 60)
    assert going.step is MoveStep.DRAINING
    assert service.sizing().moving == going.replica
    assert service.serving("long") == [D]
    later = service.ask(60.0, prompt=SHORT)
    assert every(Dispatch, later)[0].replica != going.replica
    for number in (1, 2, 3):
        service.done(61.0, number)
    (moved,) = service.run(62, 64)
    assert (moved.step, moved.replica) == (MoveStep.MOVED, going.replica)


def test_one_that_does_not_get_empty_stays() -> None:
    service = Shared(shared())
    for number in range(3):
        service.ask(0.5 + number / 100.0, prompt=SHORT)
    for number in range(20):
        service.ask(1.0 + number / 100.0, prompt=LONG)
    going, kept = service.run(2, 340)
    assert (going.step, kept.step, kept.replica) == (MoveStep.DRAINING, MoveStep.KEPT, going.replica)
    assert len(service.serving("mixed")) == 3


def test_nothing_moves_again_within_the_dwell_time_nor_beyond_the_bounds() -> None:
    service = loaded(long=60)
    moves = service.run(2, 300)
    assert [move.num_to for move in moves] == [2, 3]  # never a fourth
    assert moves[1].at - moves[0].at >= 30.0
    assert len(service.serving("mixed")) == 1


def test_equal_work_moves_nothing_however_much_it_is() -> None:
    service = Shared(shared())
    for number in range(60):
        service.ask(1.0 + number / 100.0, prompt=LONG)
    for number in range(900):
        service.ask(2.0 + number / 1000.0, prompt=SHORT)
    assert service.run(3, 200) == []
    assert service.pool("mixed").waiting > 0
    assert service.pool("long").waiting > 0


def test_it_comes_home_when_the_other_pool_needs_it_more() -> None:
    service = loaded()
    service.run(2, 60)
    for number in range(1, 22):
        service.done(60.0, number)
    for number in range(900):
        service.ask(61.0 + number / 1000.0, prompt=SHORT)
    (back,) = [move for move in service.run(62, 130) if move.step is MoveStep.MOVED]
    assert (back.from_pool, back.to_pool) == ("long", "mixed")
    assert service.serving("long") == [D]  # the one that the policy gives to the other pool went


def test_a_pool_whose_replicas_are_down_gets_one_without_waiting_for_the_dwell_time() -> None:
    service = Shared(shared())
    service.report(1.0)
    moves = service.run(2, 5, down=(D,))
    assert [(move.reason, move.step, move.at) for move in moves] == [(MoveReason.NONE_UP, MoveStep.MOVED, START + 2.0)]
    assert every(Dispatch, service.ask(5.0, prompt=LONG))[0].replica == moves[0].replica


def test_bounds_that_the_policy_changes_are_kept_at_once() -> None:
    service = Shared(shared())
    service.report(1.0)
    service.governor.handle(PolicyChanged(START + 2.0, shared(least=2)))
    (move,) = service.run(3, 5)
    assert (move.reason, move.num_to) == (MoveReason.BOUNDS, 2)


def test_a_reload_keeps_who_was_lent_and_ends_it_where_pools_share_no_more() -> None:
    service = loaded()
    (move,) = service.run(2, 60)
    service.governor.handle(PolicyChanged(START + 61.0, shared(more="dwell: 50s")))
    service.report(62.0)
    assert sorted(service.serving("long")) == sorted([D, move.replica])
    apart = msgspec.structs.replace(
        shared(), pools=tuple(msgspec.structs.replace(pool, adaptive=None) for pool in shared().pools)
    )
    service.governor.handle(PolicyChanged(START + 63.0, apart))
    service.report(64.0)
    assert sorted(service.serving("mixed")) == [A, B, C]
    assert service.serving("long") == [D]


def test_a_replica_that_a_reload_adds_serves_the_pool_that_names_it() -> None:
    service = loaded()
    (move,) = service.run(2, 60)
    service.governor.handle(PolicyChanged(START + 61.0, shared(mixed=f'["{A}", "{B}", "{C}", "http://e"]')))
    assert "http://e" in service.serving("mixed")
    assert sorted(service.serving("long")) == sorted([D, move.replica])


def test_the_snapshot_is_enough_to_ask_where_a_request_would_go() -> None:
    service = loaded()
    (move,) = service.run(2, 60)
    text = msgspec.json.encode(service.governor.snapshot(START + 60.0))
    governor = Governor(service.governor.policy)
    restore(governor, msgspec.json.decode(text, type=Snapshot), RequestArrived(START + 60.0, 1, "ada", "m", LONG))
    (long,) = [pool for pool in governor.snapshot(START + 60.0).pools if pool.pool == "long"]
    assert {replica.replica for replica in long.replicas} == {D, move.replica}


def test_every_replica_serves_one_pool_and_is_shown_once() -> None:
    service = loaded(long=60)
    for at in range(2, 200):
        service.report(float(at))
        running = [
            replica.name for pool in service.governor.pools() for replica in pool.replicas if replica.num_in_flight
        ]
        assert len(running) == len(set(running))
        shown = [replica.replica for pool in service.governor.snapshot(START + at).pools for replica in pool.replicas]
        assert sorted(shown) == [A, B, C, D]


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("with: other, max: 2", "with"),
        ("with: long, max: 2", "with"),
        ("with: mixed, max: 4", "max"),
        ("with: mixed, max: 2, min: 3", "min"),
        ("with: mixed, max: 2, min: 0", "min"),
        ("with: mixed, max: 2, dwell: 0s", "dwell"),
        ("with: mixed", "max"),
        ("max: 2", "with"),
    ],
)
def test_what_cannot_be_shared_is_told_with_its_place(more: str, where: str) -> None:
    text = f"""
plimsoll: 1
tiers: [{{name: gold, rank: 0, queue_timeout: 1h, queue_limit: 5000}}]
tenants: [{{name: ada, tier: gold}}]
pools:
  - {{name: mixed, model: m, engine: vllm, replicas: ["{A}", "{B}", "{C}"], max_prompt_tokens: 1k}}
  - {{name: long, model: m, engine: vllm, replicas: ["{D}"], min_prompt_tokens: 1k, adaptive: {{{more}}}}}
"""
    assert f"pools[1].adaptive.{where}" in [fault.path for fault in examine(text).faults]


def test_pools_of_other_engines_or_with_three_parties_do_not_share() -> None:
    text = f"""
plimsoll: 1
tiers: [{{name: gold, rank: 0, queue_timeout: 1h, queue_limit: 5000}}]
tenants: [{{name: ada, tier: gold}}]
pools:
  - {{name: mixed, model: m, engine: sglang, replicas: ["{A}", "{B}"], max_prompt_tokens: 1k}}
  - {{name: long, model: m, engine: vllm, replicas: ["{C}"], min_prompt_tokens: 1k, adaptive: {{with: mixed, max: 2}}}}
  - {{name: more, model: m, engine: vllm, replicas: ["{D}"], min_prompt_tokens: 1k, adaptive: {{with: mixed, max: 2}}}}
"""
    faults = [fault.message for fault in examine(text).faults]
    assert any("another engine" in fault for fault in faults)
    assert any("shares its replicas with another already" in fault for fault in faults)
