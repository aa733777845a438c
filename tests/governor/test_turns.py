"""Floors, lending, pacing and affinity by example."""

from fractions import Fraction
from math import inf

import pytest

from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.governor.admission import floors_of
from plimsoll.governor.decisions import Dispatch, Enqueue, WakeAt
from plimsoll.policy.policy import Limits, Order, Pool, RoutingRule, Scheduling, Tenant, Tier
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, all_of, only, replica_of
from tests.laws.histories import START, objectives, policy_of


def two_tiers(gold: int, bronze: int, *, wait: float | None = None) -> tuple[Tier, ...]:
    return (
        Tier("gold", 0, Fraction(gold, 100), wait=wait, objectives=objectives(1.0)),
        Tier("bronze", 2, Fraction(bronze, 100), objectives=objectives(5.0)),
    )


TENANTS = (Tenant("ada", "gold"), Tenant("dan", "bronze"))


def test_floors_by_largest_remainder() -> None:
    assert floors_of([0.5, 0.3, 0.15], 1000, in_blocks=True) == [500, 300, 150]
    assert floors_of([0.5, 0.3, 0.15], 4, in_blocks=False) == [2, 1, 1]
    assert floors_of([0.5, 0.3, 0.15], 3, in_blocks=False) == [1, 1, 1]
    assert floors_of([0.9, 0.05, 0.05], 4, in_blocks=False) == [2, 1, 1]
    assert floors_of([0.5, 0.3, 0.15], 2, in_blocks=False) == [1, 1, 0]
    assert floors_of([0.0, 0.0], 4, in_blocks=False) == [0, 0]
    for slots in range(1, 40):
        floors = floors_of([0.41, 0.33, 0.2], slots, in_blocks=False)
        assert sum(floors) <= slots
        assert slots < 3 or min(floors) >= 1


def test_an_idle_floor_is_not_lent_before_anything_is_known_of_releases() -> None:
    """Unknown is not zero, nor is it a promise: bronze gets its own 20 % and the free 30 %, gold's half stays."""
    service = Service(
        policy_of(tiers=two_tiers(50, 20), tenants=TENANTS, num_replicas=1), kv_blocks=100
    )  # 100 blocks; each request takes 10
    reasons = []
    for num in range(6):
        decisions = service.ask(1 + num, "dan", prompt=80, output=80)
        service.first(1.5 + num, service.num) if all_of(Dispatch, decisions) else None
        reasons += [d.reason for d in all_of(Dispatch, decisions)]
    assert reasons == [Reason.FITS] * 5
    assert only(Dispatch, service.ask(8, "ada", prompt=400, output=400)).reason is Reason.FLOOR


def test_an_idle_floor_is_lent_up_to_what_comes_back_in_time() -> None:
    """Requests end after 1 s; gold waits for its floor up to 4 s, so nearly all of it may be lent."""
    service = Service(policy_of(tiers=two_tiers(50, 20, wait=4.0), tenants=TENANTS, num_replicas=1), kv_blocks=100)
    for num in range(30):
        at = 2.0 * num
        service.ask(at, "dan", prompt=80, output=80)
        service.first(at + 0.1, service.num)
        service.done(at + 1.0, service.num, output=80)
    reasons = []
    for num in range(12):
        decisions = service.ask(100 + num / 100, "dan", prompt=80, output=80)
        for dispatch in all_of(Dispatch, decisions):
            service.first(100 + num / 100, dispatch.request_id)
            reasons.append(dispatch.reason)
    assert reasons[:5] == [Reason.FITS] * 5
    assert 3 <= len(reasons[5:]) <= 5
    assert set(reasons[5:]) == {Reason.LENT}


def test_slots_are_floors_too_where_an_engine_tells_no_capacity() -> None:
    pools = (Pool("chat", "m", "llamacpp", ("http://r0",), max_concurrency=4),)
    service = Service(policy_of(tiers=two_tiers(50, 25), tenants=TENANTS, pools=pools), kv_blocks=None)
    sent = [d for num in range(4) for d in all_of(Dispatch, service.ask(1 + num / 10, "dan"))]
    assert len(sent) == 2  # its own slot and the one that nobody holds
    assert all(d.reserved_output_tokens == 0 for d in sent)
    assert only(Dispatch, service.ask(2)).tier_served == "gold"
    replica = service.governor.snapshot(3).pools[0].replicas[0]
    assert (replica.unit, replica.capacity, replica.floors) == ("slots", 4, {"gold": 2, "bronze": 1})


def test_lower_tiers_do_not_pile_up_prompts_inside_the_engine() -> None:
    """Room for KV there is plenty; what waits in the engine to be computed is what gold would stand behind."""
    service = Service(policy_of(tiers=two_tiers(0, 0), tenants=TENANTS, num_replicas=1), kv_blocks=10_000)
    assert only(Dispatch, service.ask(1, "dan", prompt=1500)).reason is Reason.FITS
    assert only(Enqueue, service.ask(1.1, "dan", prompt=1500)).reason is Reason.POOL_FULL
    assert only(Dispatch, service.ask(1.2, "dan", prompt=500)).request_id == 3  # still within one step
    assert only(Dispatch, service.ask(1.3, "ada", prompt=4000)).tier_served == "gold"
    assert all_of(Dispatch, service.first(1.4, 1)) == []
    assert only(Dispatch, service.first(1.5, 4)).request_id == 2


def test_a_prompt_that_hangs_does_not_hold_up_lower_tiers_for_ever() -> None:
    service = Service(policy_of(tiers=two_tiers(0, 0), tenants=TENANTS, num_replicas=1), kv_blocks=10_000)
    service.ask(1, "ada", prompt=4000)
    assert all_of(Dispatch, service.ask(2, "dan", prompt=100)) == []
    assert all_of(Dispatch, service.report(30)) == []
    assert only(Dispatch, service.report(32)).request_id == 2


def test_a_prompt_larger_than_a_step_goes_alone() -> None:
    service = Service(policy_of(tiers=two_tiers(0, 0), tenants=TENANTS, num_replicas=1), kv_blocks=10_000)
    assert only(Dispatch, service.ask(1, "dan", prompt=30_000))


def test_prefixes_draw_until_the_replica_is_a_hotspot() -> None:
    service = Service(policy_of(num_replicas=4), kv_blocks=100_000)
    prefix = tuple(range(8))
    home = replica_of(service.ask(1, prompt=4096, prefix_hashes=prefix))
    service.first(1.1, 1)
    places = []
    for num in range(12):
        places.append(replica_of(service.ask(2 + num, prompt=4096, prefix_hashes=(*prefix, 100 + num))))
        service.first(2.5 + num, service.num)
    assert places[:4] == [home] * 4
    assert len(set(places)) > 1


def test_load_by_profile_prefers_the_replica_with_less_work() -> None:
    profile = EngineProfile("p", "a test", StepCoefficients(a=0.01, e=1e-4), StepCoefficients(a=0.01, e=1e-4))
    pools = (Pool("chat", "m", "vllm", ("http://r0", "http://r1"), profile="p"),)
    service = Service(policy_of(pools=pools), kv_blocks=None, profiles={"p": profile})
    first = replica_of(service.ask(1, prompt=8000))
    assert [replica_of(service.ask(1.1, prompt=100)) for _ in range(3)].count(first) == 0
    assert service.governor.snapshot(2).pools[0].replicas[0].capacity == 10_000  # as the profile says


def test_round_robin_and_least_requests() -> None:
    for rule, expected in (("round_robin", ["http://r0", "http://r1", "http://r2"] * 2), ("least_requests", None)):
        scheduling = Scheduling(routing=RoutingRule(rule), reserve_kv=False, tiers_matter=False)
        tenants = (Tenant("ada", "gold", limits=Limits()),)
        service = Service(policy_of(num_replicas=3, scheduling=scheduling, tenants=tenants))
        places = [replica_of(service.ask(1)) for _ in range(6)]
        assert sorted(places) == sorted(["http://r0", "http://r1", "http://r2"] * 2)
        assert expected is None or places == expected


def test_what_fits_an_empty_replica_only_by_borrowing_is_served() -> None:
    """More than a lower tier's floor and the unheld room, beside nothing at all: it would else wait for ever."""
    service = Service(policy_of(num_replicas=1), kv_blocks=100)
    assert only(Dispatch, service.ask(1, "dan", prompt=160, output=1280)).reason is Reason.LENT


def test_floors_hold_in_slots_where_they_run_out_before_blocks() -> None:
    """Small requests of bronze may not take the slots without which gold's blocks are of no use."""
    pools = (Pool("chat", "m", "vllm", ("http://r0",), max_concurrency=8),)
    service = Service(policy_of(tiers=two_tiers(50, 25), tenants=TENANTS, pools=pools), kv_blocks=10_000)
    sent = [d for num in range(8) for d in all_of(Dispatch, service.ask(1 + num / 10, "dan", prompt=16, output=16))]
    assert len(sent) == 4  # two slots of its own, two that nobody holds
    gold = [only(Dispatch, service.ask(3 + num / 10, prompt=16, output=16)) for num in range(4)]
    assert [d.reason for d in gold] == [Reason.FLOOR] * 4
    replica = service.governor.snapshot(4).pools[0].replicas[0]
    assert replica.slot_floors == {"gold": 4, "bronze": 2}
    assert replica.slots_used == {"gold": 4, "bronze": 4}


def test_what_exceeds_a_floor_takes_nothing_of_another_one() -> None:
    """Of 100 blocks gold holds 50, bronze 20: bronze's 60 at once would leave gold 40."""
    service = Service(policy_of(tiers=two_tiers(50, 20), tenants=TENANTS, num_replicas=1), kv_blocks=100)
    service.ask(1, "ada", prompt=16, output=16)
    service.first(1.05, 1)
    assert all_of(Dispatch, service.ask(1.1, "dan", prompt=480, output=480)) == []


def test_room_is_kept_where_a_large_request_will_soonest_fit_and_nowhere_else() -> None:
    """One replica has a long output to make, the other a short one: there room is kept, here small ones go on."""
    profile = EngineProfile("p", "a test", StepCoefficients(a=0.01), StepCoefficients(a=0.01))
    pools = (Pool("chat", "m", "vllm", ("http://r0", "http://r1"), profile="p"),)
    service = Service(
        policy_of(
            tiers=two_tiers(0, 0),
            tenants=(Tenant("ada", "gold"), Tenant("bob", "gold")),
            pools=pools,
            scheduling=Scheduling(bypasses=1, order=Order.FCFS),
        ),
        kv_blocks=100,
        profiles={"p": profile},
    )
    long = only(Dispatch, service.ask(1, prompt=16, output=960))
    short = only(Dispatch, service.ask(1, prompt=800, output=160))
    assert long.replica != short.replica
    large = only(Enqueue, service.ask(1.1, prompt=800, output=640)).request_id
    sent = [d for _ in range(8) for d in all_of(Dispatch, service.ask(1.2, "bob", prompt=32, output=16))]
    assert [d.reason for d in sent] == [Reason.BYPASS] * 8
    assert [d.replica for d in sent[1:]] == [long.replica] * 7  # one might pass anywhere
    in_the_way = [d.request_id for d in (short, *sent) if d.replica == short.replica]
    dispatched = [d for request in in_the_way for d in all_of(Dispatch, service.done(2, request))]
    assert [(d.request_id, d.replica) for d in dispatched] == [(large, short.replica)]


def test_prompts_of_answers_in_one_piece_are_paced_by_prediction() -> None:
    """No first token tells that they are computed: by the profile 0.1 ms a token, so 20,000 take 2 s."""
    profile = EngineProfile("p", "a test", StepCoefficients(a=0.01), StepCoefficients(e=1e-4))
    pools = (Pool("chat", "m", "vllm", ("http://r0",), profile="p"),)
    service = Service(
        policy_of(tiers=two_tiers(0, 0), tenants=TENANTS, pools=pools), kv_blocks=None, profiles={"p": profile}
    )
    assert only(Dispatch, service.ask(1, "dan", prompt=20_000, streaming=False))
    queued = service.ask(1.1, "dan", prompt=20_000, streaming=False)
    assert all_of(Dispatch, queued) == []
    wake = [d.at - START for d in queued if isinstance(d, WakeAt)]
    assert wake == [pytest.approx(3.0, abs=0.1)]
    assert all_of(Dispatch, service.timer(2.0)) == []
    assert only(Dispatch, service.timer(wake[0])).request_id == 2


def test_where_nothing_is_known_of_prompts_an_answer_in_one_piece_counts_until_its_end() -> None:
    service = Service(policy_of(tiers=two_tiers(0, 0), tenants=TENANTS, num_replicas=1), kv_blocks=10_000)
    service.ask(1, "dan", prompt=2000, streaming=False)
    assert all_of(Dispatch, service.ask(5, "dan", prompt=2000, streaming=False)) == []
    assert only(Dispatch, service.done(6, 1)).request_id == 2


@pytest.mark.parametrize(("bypass_for", "passing"), [(inf, 30), (10.0, 9), (0.0, 0)])
def test_a_large_one_is_passed_for_so_long_and_no_longer(bypass_for: float, passing: int) -> None:
    """One replica, three quarters taken: a request for half of it waits from the first second on, and every second
    a small one comes and ends."""
    rules = Scheduling(bypasses=1000, bypass_for=bypass_for, order=Order.FCFS)
    tenants = (Tenant("ada", "gold"), Tenant("bob", "gold"))
    policy = policy_of(tiers=two_tiers(0, 0), tenants=tenants, num_replicas=1, scheduling=rules)
    service = Service(policy, kv_blocks=100)
    service.ask(0.5, prompt=800, output=400)
    only(Enqueue, service.ask(1.0, prompt=400, output=400))
    passed = 0
    for second in range(2, 32):
        small = service.ask(second, "bob", prompt=32, output=32)
        for sent in all_of(Dispatch, small):
            assert sent.reason is Reason.BYPASS
            passed += 1
            service.done(second + 0.5, sent.request_id)
    assert passed == passing
