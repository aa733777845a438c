"""Routing by prediction: factors learn what the profile does not know, errors are told, outliers are taken out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile, StepCoefficients
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.decisions import Dispatch, Settle
from plimsoll.governor.events import PolicyChanged
from plimsoll.governor.governor import Governor
from plimsoll.governor.predicting import Common, Predictor
from plimsoll.governor.snapshot import ReplicaState
from plimsoll.policy.policy import Pool, RoutingRule, Scheduling
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload
from plimsoll.slo.outcome import Outcome, Reason
from tests.governor.service import Service, all_of, only
from tests.laws.histories import START, policy_of

PROFILE = EngineProfile("p", "a test", StepCoefficients(a=0.01), StepCoefficients(e=1e-4))
REAL = "h100-llama70b-tp4"


@settings(max_examples=20)
@given(truth=st.floats(0.3, 4.0))
def test_factors_come_to_what_is_true(truth: float) -> None:
    """An engine that is so many times slower than its profile says: predictions end within 2 % of it."""
    predictor = Predictor(PROFILE, StepTime(PROFILE), Common())
    ideal = Predictor(PROFILE, StepTime(PROFILE), Common())
    for num in range(600):
        tokens = 100 + 50 * (num % 7)
        ttft, itl = truth * ideal.ttft(tokens, 4, 1000), truth * ideal.itl(4, 1000)
        predictor.first_token(predictor.ttft(tokens, 4, 1000), ttft, predictor.ttft_pace())
        predictor.tokens(predictor.itl(4, 1000), itl, predictor.itl_pace())
    assert predictor.ttft(500, 4, 1000) == pytest.approx(truth * ideal.ttft(500, 4, 1000), rel=0.02)
    assert predictor.itl(4, 1000) == pytest.approx(truth * ideal.itl(4, 1000), rel=0.02)
    for errors in (predictor.ttft_errors, predictor.tpot_errors):
        median, _, bias = errors.told()
        assert median is not None
        assert bias is not None
        assert median < 0.02


@settings(max_examples=20)
@given(truth=st.floats(0.3, 4.0), under_way=st.integers(1, 400))
def test_factors_do_not_swing_where_answers_take_long(truth: float, under_way: int) -> None:
    """What came is told only after so many more predictions: it is never overdone, whatever the delay."""
    predictor = Predictor(PROFILE, StepTime(PROFILE), Common())
    made: list[tuple[float, float]] = []
    for _ in range(3000):
        made.append((predictor.itl(4, 1000), predictor.itl_pace()))
        if len(made) > under_way:
            predictor.tokens(made[0][0], truth * made[0][0] / made[0][1], made[0][1])
            predictor.first_token(made[0][0], truth * made[0][0] / made[0][1], made[0][1])
            made.pop(0)
        for pace in (predictor.itl_pace(), predictor.ttft_pace()):
            assert min(1.0, truth) * 0.98 <= pace <= max(1.0, truth) * 1.02
    assert predictor.itl_pace() == pytest.approx(truth, rel=0.01)


def test_errors_are_not_told_before_enough_is_known() -> None:
    predictor = Predictor(PROFILE, StepTime(PROFILE), Common())
    for _ in range(19):
        predictor.first_token(1.0, 2.0, 1.0)
    assert predictor.ttft_errors.told() == (None, None, None)
    predictor.first_token(1.0, 2.0, 1.0)
    assert predictor.ttft_errors.told() == pytest.approx([0.5, 0.5, -0.5], rel=0.02)
    assert predictor.tpot_errors.told() == (None, None, None)


def test_what_was_foreseen_is_kept_beside_what_came() -> None:
    service = service_of(1)
    dispatch = only(Dispatch, service.ask(41.0, prompt=400, output=100))
    predictor = Predictor(PROFILE, StepTime(PROFILE), Common())
    service.first(41.2, dispatch.request_id)
    row = only(Settle, service.done(42.0, dispatch.request_id, output=100, began=41.2)).record
    assert row.predicted_ttft == pytest.approx(predictor.ttft_now(400, 0, 0, 0, START + 41.0))
    assert row.predicted_tpot == pytest.approx(predictor.itl(1, 400))
    refused = only(Settle, service.ask(43.0, prompt=400, output=100, tenant="nobody")).record
    assert (refused.predicted_ttft, refused.predicted_tpot) == (None, None)


def test_a_frontends_time_is_part_of_what_is_foreseen() -> None:
    slow = structs.replace(PROFILE, frontend=0.25)
    with_it, without = (Predictor(each, StepTime(each), Common()) for each in (slow, PROFILE))
    assert with_it.ttft(400, 2, 800) == pytest.approx(without.ttft(400, 2, 800) + 0.25)
    assert with_it.ttft_now(400, 0, 2, 800, 1.0) == pytest.approx(without.ttft_now(400, 0, 2, 800, 1.0) + 0.25)


def service_of(num_replicas: int) -> Service:
    pools = (Pool("chat", "m", "vllm", tuple(f"http://r{i}" for i in range(num_replicas)), profile="p"),)
    rules = Scheduling(routing=RoutingRule.PREDICTED)
    service = Service(policy_of(pools=pools, scheduling=rules), kv_blocks=None, profiles={"p": PROFILE})
    service.report(40.0)  # they are warm
    return service


def test_a_new_profile_is_predicted_by_and_what_was_learnt_of_the_old_one_is_forgotten() -> None:
    service = service_of(1)
    serve(service, 41.0)
    predictor = service.governor.pools()[0].replicas[0].predictor
    assert predictor is not None
    slower = EngineProfile("p", "twice as slow", StepCoefficients(a=0.02), StepCoefficients(e=2e-4))
    policy = service.governor.policy
    service.governor.handle(PolicyChanged(START + 50, policy, {"p": PROFILE}))
    assert service.governor.pools()[0].replicas[0].predictor is predictor
    service.governor.handle(PolicyChanged(START + 50, policy, {"p": slower}))
    renewed = service.governor.pools()[0].replicas[0].predictor
    assert renewed is not None
    assert renewed.ttft(400, 0, 0) == Predictor(slower, StepTime(slower), Common()).ttft(400, 0, 0)


def broke(service: Service, at: float, request_id: int) -> None:
    service.done(at, request_id, output=0, outcome=Outcome.FAILED, reason=Reason.CONNECTION_LOST)


def replicas(service: Service) -> dict[str, ReplicaState]:
    return {r.replica: r for r in service.governor.snapshot(START + 60).pools[0].replicas}


def serve(service: Service, at: float, *, slow: str = "", broken: str = "", width: int = 3) -> None:
    """So many at once, sixty times; a first token takes 50 ms, on the slow one half a second."""
    for i in range(60):
        now = at + i / 10
        sent = [only(Dispatch, service.ask(now, prompt=400, output=100)) for _ in range(width)]
        for dispatch in sent:
            if dispatch.replica == broken:
                broke(service, now + 0.03, dispatch.request_id)
                continue
            first = now + (0.5 if dispatch.replica == slow else 0.05)
            service.first(first, dispatch.request_id)
            service.done(first + 1.0, dispatch.request_id, output=100, began=first)


@pytest.mark.parametrize("how", ["slow", "broken"])
def test_an_outlier_is_taken_out_and_comes_back(how: str) -> None:
    service = service_of(3)
    if how == "broken":
        serve(service, 41.0, broken="http://r1")
    else:  # asked little, it would hardly get anything: that it is slow is known after three
        serve(service, 41.0, slow="http://r1", width=40)
    state = replicas(service)
    assert {name: r.ejected for name, r in state.items()} == {"http://r0": 0, "http://r1": 1, "http://r2": 0}
    pool = service.governor.pools()[0]
    assert pool.replicas[1].backoff_until - START > 60
    assert pool.replicas[1].routable(START + 110)


def test_where_most_are_bad_it_is_not_the_replica() -> None:
    """Two of two, or the one there is: none is taken out."""
    for num in (1, 2):
        service = service_of(num)
        for i in range(40):
            for dispatch in all_of(Dispatch, service.ask(41 + i, prompt=400, output=100)):
                broke(service, 41.1 + i, dispatch.request_id)
        assert sum(r.ejected for r in replicas(service).values()) == 0


def test_what_engines_refuse_for_the_clients_fault_makes_no_outlier() -> None:
    """All that r1 gets is malformed: its 4xx are good answers, and the requests of others may still go there."""
    service = service_of(3)
    for i in range(60):
        for dispatch in [only(Dispatch, service.ask(41 + i / 10, prompt=400, output=100)) for _ in range(3)]:
            refused = dispatch.replica == "http://r1"
            at = 41.05 + i / 10
            if refused:
                end = {"outcome": Outcome.FAILED, "reason": Reason.ENGINE_REFUSED}
                service.done(at, dispatch.request_id, 0, 0.0, **end)
            else:
                service.done(at, dispatch.request_id, output=100)
    assert sum(r.ejected for r in replicas(service).values()) == 0


def test_a_replica_that_came_up_takes_less_at_first() -> None:
    """Ten requests run on either; of the next twenty the one that is warming up gets fewer, later as many."""

    def given(at: float, num: int) -> int:
        sent = [only(Dispatch, service.ask(at, prompt=4000, output=1)).replica for _ in range(num)]
        for request in range(service.num - num + 1, service.num + 1):
            service.first(at + 0.5, request)
            service.done(at + 1.0, request, output=1)
        return sent.count("http://r1")

    service = service_of(2)
    service.report(50.0, down=("http://r1",))
    service.report(51.0)
    assert 1 <= given(51.1, 20) < 8
    service.report(90.0)
    assert 9 <= given(90.1, 20) <= 11


def test_old_reports_make_it_a_choice_of_two() -> None:
    """Fresh reports: always the least loaded of eight. Old ones: the better of two drawn ones."""
    service = service_of(8)
    fresh = [only(Dispatch, service.ask(41.0, prompt=400, output=100)).replica for _ in range(8)]
    assert len(set(fresh)) == 8
    stale = [only(Dispatch, service.ask(60.0, prompt=400, output=100)).replica for _ in range(64)]
    assert min(len(set(stale[i : i + 8])) for i in range(0, 64, 8)) < 8  # not the best of all each time …
    assert max(stale.count(f"http://r{i}") for i in range(8)) <= 12  # … nor blindly by lot


def test_in_the_simulator_it_learns_an_engine_that_its_profile_does_not_know() -> None:
    """The true engine takes 1.4 times as long in every step as the profile of the policy says."""
    pools = (Pool("chat", "m", "vllm", ("http://r1", "http://r2"), profile=REAL),)
    policy = policy_of(pools=pools, scheduling=Scheduling(routing=RoutingRule.PREDICTED))
    known = profiles.load(REAL)
    tenants = (
        TenantProfile("ada", 6.0, prompt=Lengths(1500, 0.6, 12_000), output=Lengths(100, 0.5, 600), max_output=600),
        TenantProfile("dan", 2.0, prompt=Lengths(300, 0.5, 4000), output=Lengths(100, 0.5, 600), max_output=600),
    )
    true = {REAL: EngineProfile(**{f: getattr(known, f) for f in known.__struct_fields__} | {"host_factor": 1.4})}
    simulation = Simulation(policy, true, Workload(tenants, 60.0, "m").arrivals(1), lambda _: None)
    simulation.governor = Governor(policy, {REAL: known})
    simulation.run()
    for state in simulation.governor.snapshot(simulation.now).pools[0].replicas:
        assert state.ttft_error_median is not None
        assert state.ttft_error_p90 is not None
        assert state.ttft_bias is not None
        assert state.ttft_error_median < 0.2
        assert abs(state.ttft_bias) < 0.3


CLOCKED = EngineProfile(
    "p", "a test", StepCoefficients(a=0.02), StepCoefficients(a=0.02, e=1e-4), max_batched_tokens=1000
)


def test_where_an_engine_is_in_its_steps_is_known_from_what_ended() -> None:
    """Decode steps take 20 ms, a prompt of 500 tokens 70 ms: whoever comes 5 ms into a step waits for the other 15."""
    predictor = Predictor(CLOCKED, StepTime(CLOCKED), Common())
    assert predictor.ttft_now(500, 0, 3, 100, 10.0) == pytest.approx(0.5 * 0.02 + 0.07, abs=1e-3)
    predictor.clock.ended(10.0)
    assert predictor.ttft_now(500, 0, 3, 100, 10.045) == pytest.approx(0.015 + 0.07, abs=1e-3)
    predictor.clock.sent(500)
    both = predictor.ttft_now(400, 500, 4, 100, 10.05)
    assert both == pytest.approx(0.01 + 0.11, abs=1e-3), "it joins the one before it"


def test_a_first_token_puts_the_clock_right() -> None:
    """A step that was taken to run, and one that ended early: the next one begins when a first token says so."""
    predictor = Predictor(CLOCKED, StepTime(CLOCKED), Common())
    predictor.ttft_now(500, 0, 0, 0, 10.0)
    predictor.clock.sent(500)
    assert predictor.ttft_now(500, 500, 1, 100, 10.03) == pytest.approx(0.04 + 0.07, abs=1e-3)
    predictor.clock.sent(500)
    predictor.clock.ended(10.06)  # 10 ms early
    assert predictor.ttft_now(200, 500, 2, 100, 10.06) == pytest.approx(0.07 + 0.04, abs=1e-3)
    predictor.clock.ended(10.16)  # 30 ms late: nothing ran between
    assert predictor.ttft_now(200, 0, 2, 100, 10.17) == pytest.approx(0.01 + 0.04, abs=1e-3)
