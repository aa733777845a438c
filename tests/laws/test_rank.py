"""Law 6: rank with floors, trickle and bounded bypass.

"Ready" is the next of its tier in the tier's own order, if it can still meet its objective; that it "fits" is computed
here anew from units and floors, without lending (what fits without borrowing certainly fits).
"""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import AttemptFailed
from plimsoll.governor.floors import Floors
from plimsoll.governor.governor import Governor
from plimsoll.governor.pool import Pool as PoolAtWork
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.policy.policy import Order, Pool, Scheduling, Tier
from plimsoll.slo.outcome import Reason
from tests.laws.histories import Traffic, World, objectives, policy_of

RANKED = {Reason.RANK, Reason.LENT, Reason.FITS, Reason.RETRIED}


def tiers_of(shares: tuple[int, int, int], trickle: int) -> tuple[Tier, ...]:
    gold, silver, bronze = (Fraction(share, 100) for share in shares)
    return (
        Tier("gold", 0, gold, objectives=objectives(0.8)),
        Tier("silver", 1, silver, Fraction(trickle, 100), objectives=objectives(2.0)),
        Tier("bronze", 2, bronze, Fraction(trickle, 100), objectives=objectives(5.0)),
    )


def pools_of(slots: int | None) -> tuple[Pool, ...]:
    """Two replicas; with so many slots beside what blocks they tell."""
    return (Pool("chat", "m", "vllm", ("http://r0", "http://r1"), max_concurrency=slots),)


def free_units(replica: Replica) -> int:
    return 0 if replica.num_in_flight >= replica.slots else replica.limit - replica.reserved


def paced(replica: Replica, request: Request, *, within_floor: bool) -> bool:
    """Prompts not yet computed there leave no room for one of a lower tier: one step's worth, a floor one more."""
    pending = replica.pending_prompt
    more = 0 if within_floor else request.prompt_tokens
    return (request.tier.rank > 0 or request.late) and pending > 0 and pending + more > 2048


def rooms(replica: Replica, request: Request) -> list[tuple[Floors, int, int]]:
    """(floors, need, free) in units and, where both can run out, in slots."""
    found = [(replica.room, replica.units_for(request), free_units(replica))]
    if replica.slot_room is not None:
        found.append((replica.slot_room, 1, replica.slots - replica.num_in_flight))
    return found


def certainly_fits(replica: Replica, request: Request) -> bool:
    if paced(replica, request, within_floor=within_own(replica, request)):
        return False
    for room, need, free in rooms(replica, request):
        own = room.floors[request.lane] - room.used[request.lane]
        others_idle = sum(
            max(0, floor - used)
            for lane, (floor, used) in enumerate(zip(room.floors, room.used, strict=True))
            if lane != request.lane
        )
        if need > free or (need > own and others_idle > free - need):
            return False
    return True


def within_own(replica: Replica, request: Request) -> bool:
    return all(room.used[request.lane] + need <= room.floors[request.lane] for room, need, _ in rooms(replica, request))


def within_floor(replica: Replica, request: Request) -> bool:
    room_for_it = all(need <= free for _, need, free in rooms(replica, request))
    return within_own(replica, request) and room_for_it and not paced(replica, request, within_floor=True)


def ready(pool: PoolAtWork, replica: Replica, at: float) -> list[Request]:
    if not replica.routable(at):
        return []
    heads = [lane.head() for lane in pool.lanes]
    return [head for head in heads if head is not None and not head.tried & replica.bit]


worlds = st.builds(
    lambda seed, shares, trickle, rules, slots, traffic: World(
        Governor(policy_of(tiers=tiers_of(shares, trickle), scheduling=rules, pools=pools_of(slots))), traffic, seed
    ),
    st.integers(0, 1 << 32),
    st.sampled_from(((50, 30, 15), (0, 0, 0), (30, 30, 40), (80, 0, 0))),
    st.sampled_from((0, 5, 30)),
    st.builds(Scheduling, bypasses=st.sampled_from((0, 3, 16)), order=st.sampled_from(Order)),
    st.sampled_from((None, 8, 40)),
    st.builds(
        Traffic,
        rate=st.sampled_from((20.0, 50.0)),
        kv_blocks=st.sampled_from((None, 250, 900)),
        attempt_fails=st.sampled_from((0.0, 0.1)),
    ),
)


@settings(max_examples=20, deadline=None)
@given(world=worlds)
def test_no_lower_tier_goes_where_a_higher_one_fits(world: World) -> None:
    pool = world.governor.pools()[0]
    by_name = {replica.name: replica for replica in pool.replicas}
    for event, decisions in world.run(300):
        for decision in decisions:
            if not isinstance(decision, Dispatch) or decision.reason not in RANKED | {Reason.BYPASS, Reason.TRICKLE}:
                continue
            # What fits after these decisions fitted before them, when less was booked.
            replica = by_name[decision.replica]
            rank = world.policy.tier(decision.tier_served).rank
            for head in ready(pool, replica, event.at):
                floor_first = within_floor(replica, head) and head.tier.name != decision.tier_served
                assert not floor_first, f"{decision} went before {head.tier.name} within its floor"
                if decision.reason in RANKED and head.tier.rank < rank and not head.late:
                    assert not certainly_fits(replica, head), f"{decision} went before {head.tier.name}"


@settings(max_examples=20, deadline=None)
@given(world=worlds)
def test_a_head_is_passed_so_often_and_no_more(world: World) -> None:
    passed_so_often_and_no_more(world)


@pytest.mark.parametrize("seed", range(4))
def test_small_ones_of_a_tier_behind_its_share_do_not_take_kept_room(seed: int) -> None:
    """Bronze is behind its share of service here, and its head waits elsewhere: its turn is that head's."""
    rules = Scheduling(bypasses=0, order=Order.FCFS)
    governor = Governor(policy_of(tiers=tiers_of((50, 30, 15), 0), scheduling=rules, pools=pools_of(None)))
    passed_so_often_and_no_more(World(governor, Traffic(rate=20.0, kv_blocks=250, attempt_fails=0.0), seed))


def passed_so_often_and_no_more(world: World) -> None:
    """Once it has been passed as often as allowed, nobody behind it passes it where its room is kept."""
    pool = world.governor.pools()[0]
    limit = world.policy.scheduling.bypasses
    kept: list[tuple[int, str, int]] = []  # request, replica, rank
    # Heads change between two looks in fair order; a trickle is a turn of its own, which may go to a smaller one.
    is_still = world.policy.scheduling.order is Order.FCFS and not any(tier.trickle for tier in world.policy.tiers)
    for event, decisions in world.run(300):
        heads = [head for head in [lane.head() for lane in pool.lanes] if head is not None]
        # One that comes back from a failed attempt goes in front, for an instant it may be.
        here = set() if isinstance(event, AttemptFailed) else {head.id for head in heads}
        for decision in decisions:
            if isinstance(decision, Dispatch) and decision.reason is Reason.BYPASS and is_still:
                rank = world.policy.tier(decision.tier_served).rank
                for head_id, name, head_rank in kept:
                    assert not (head_id in here and name == decision.replica and rank >= head_rank)
        kept = []
        for head in heads:
            assert head.bypassed <= limit
            if head.bypassed == limit and head.kept_index >= 0:
                replica = pool.replicas[head.kept_index]
                if replica.routable(event.at) and not head.tried & replica.bit:
                    kept.append((head.id, replica.name, head.tier.rank))
    assert world.fates


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_trickle_lets_the_lowest_tier_progress(seed: int) -> None:
    """Bronze has no floor and gold alone could fill the service: bronze still gets about its trickle."""

    def served(trickle: int) -> tuple[int, int]:
        policy = policy_of(tiers=tiers_of((0, 0, 0), trickle))
        traffic = Traffic(
            rate=60, kv_blocks=300, attempt_fails=0, leaves_queue=0, leaves_engine=0, has_deadline=0, choices=0
        )
        world = World(Governor(policy), traffic, seed)
        for _ in world.run(4000):
            pass
        done = [f for f in world.fates.values() if f.dispatches and f.tier in {"gold", "bronze"}]
        tokens = {"gold": 0, "bronze": 0}
        for fate in done:
            tokens[fate.tier] += fate.arrived.prompt_tokens + 2 * fate.output_tokens
        return tokens["gold"], tokens["bronze"]

    gold, bronze = served(20)
    assert bronze > 0.03 * gold
