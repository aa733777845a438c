"""Adapter affinity: where the adapter is loaded, unless those replicas are crowded."""

import msgspec
import pytest

from plimsoll.engine import profiles
from plimsoll.engine.features import Lora
from plimsoll.governor.decisions import Settle
from plimsoll.policy.policy import Policy, Pool, RoutingRule, Scheduling
from plimsoll.sim.simulation import Simulation
from plimsoll.sim.tenantprofile import Lengths
from plimsoll.sim.workload import Workload
from tests.governor.service import Service, replica_of
from tests.laws.histories import policy_of
from tests.sim.world import PROFILE, tenant

ADAPTERS = ("law", "med", "tax", "art")


def policy(*, num: int = 3, routing: str = RoutingRule.LOAD, profile: str | None = None) -> Policy:
    replicas = tuple(f"http://r{i}" for i in range(num))
    pools = (Pool("chat", "m", "vllm", replicas, adapters=ADAPTERS, profile=profile),)
    return policy_of(pools=pools, scheduling=Scheduling(routing=routing))


def test_requests_go_where_their_adapter_is_and_a_crowd_spreads() -> None:
    service = Service(policy())
    first = replica_of(service.ask(1, model="law"))
    assert replica_of(service.ask(1.1, model="med")) != first
    assert replica_of(service.ask(1.2, model="law")) == first
    went = [replica_of(service.ask(2 + num / 100, model="law")) for num in range(12)]
    assert went[0] == first
    assert len(set(went)) > 1, "one that everybody asks for spreads"
    assert service.governor.snapshot(2000000000.0).pools[0].replicas[int(first[-1])].adapters == ("law",)


def test_a_replicas_own_word_counts_and_a_dead_one_holds_none() -> None:
    service = Service(policy())
    service.report(1, adapters=("tax",), adapter_slots=2)
    busy = replica_of(service.ask(1.1, model="m"))
    service.governor.register.pools[0].replicas[2].loaded.forget()  # type: ignore[union-attr]
    service.governor.register.pools[0].replicas[1].loaded.forget()  # type: ignore[union-attr]
    assert busy == "http://r0"
    assert replica_of(service.ask(1.2, model="tax")) == "http://r0", "others would have to load it"
    service.report(2, down=("http://r0",))
    assert service.governor.snapshot(2000000000.0).pools[0].replicas[0].adapters == ()


def test_an_adapter_that_was_not_used_for_long_leaves_its_slot() -> None:
    service = Service(policy(num=1))
    service.report(1, adapter_slots=2)
    for num, model in enumerate(("law", "med", "law", "tax")):
        service.ask(2 + num, model=model)
    assert service.governor.snapshot(2000000000.0).pools[0].replicas[0].adapters == ("law", "tax")


@pytest.mark.parametrize("seed", [1, 2])
def test_in_the_simulator_affinity_saves_loads(seed: int) -> None:
    """Four adapters, two slots on each of two replicas: by turns each request is as likely as not to load one."""
    profile = msgspec.structs.replace(profiles.load(PROFILE), lora=Lora("a test", 2, 0.5))
    load = Workload(
        tuple(
            msgspec.structs.replace(tenant(name, 1.0), model=adapter, output=Lengths(40, 0.5, 100))
            for name, adapter in zip(("ada", "bob", "dan", "eve"), ADAPTERS, strict=True)
        ),
        60.0,
        "m",
    )

    def loads(routing: str) -> int:
        settled: list[Settle] = []
        rules = policy(num=2, routing=routing, profile=PROFILE)
        ran = Simulation(rules, {PROFILE: profile}, load.arrivals(seed), settled.append)
        ran.run()
        assert len(settled) > 200
        return sum(replica.adapters.num_loads for replica in ran.fleet.replicas)  # type: ignore[attr-defined]

    assert loads(RoutingRule.LOAD) < loads(RoutingRule.ROUND_ROBIN) / 3
