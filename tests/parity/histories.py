"""One history through both worlds: the policy that both have, the clients, and what is to be equal."""

from collections.abc import Sequence
from math import inf, sqrt
from typing import Any

import msgspec
from hypothesis import strategies as st

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Decision, Settle, WakeAt
from plimsoll.governor.events import BudgetsReported, CapabilitiesReported
from plimsoll.policy.policy import Policy
from plimsoll.sim.arrival import Arrival
from plimsoll.sim.outage import Outage
from plimsoll.sim.simulation import Simulation
from tests.parity.liveexchange import START, Wanted
from tests.parity.liveworld import LiveWorld, digest_of
from tests.sim.world import POLICY

SMALL = msgspec.structs.replace(
    profiles.load("rtxpro6000-llama8b"), name="small", num_blocks=600, max_num_seqs=6, block_size=16
)
PROFILES = {"small": SMALL}
KEYED = msgspec.structs.replace(
    POLICY,
    tenants=tuple(msgspec.structs.replace(t, keys=(digest_of(t.name),)) for t in POLICY.tenants),
    tiers=tuple(msgspec.structs.replace(tier, queue_timeout=6.0) for tier in POLICY.tiers),
    pools=tuple(msgspec.structs.replace(pool, profile="small") for pool in POLICY.pools),
)
(POOL,) = KEYED.pools

Told = BudgetsReported | CapabilitiesReported


class Around(msgspec.Struct, frozen=True):
    """What befalls both worlds beside clients: replicas that fail, and reports from outside (`at` from the start)."""

    profiles: dict[str, EngineProfile] = msgspec.field(default_factory=PROFILES.copy)
    outages: tuple[Outage, ...] = ()
    told: tuple[Told, ...] = ()

    def reports(self) -> list[Told]:
        return [msgspec.structs.replace(each, at=START + each.at) for each in self.told]


wanted = st.builds(
    Wanted,
    at=st.integers(0, 400).map(lambda ms: ms / 1000.0),  # s after the one before
    tenant=st.sampled_from([tenant.name for tenant in POLICY.tenants]),
    shared=st.sampled_from([0, 0, 2048, 4096]),
    own=st.integers(8, 6000),
    output=st.integers(1, 150),
    max_tokens=st.sampled_from([20, 200]),
    family=st.integers(1, 2),
    patience=st.sampled_from([inf, inf, inf, 0.4, 2.5]),
    streaming=st.sampled_from([True, True, False]),
)


def simulated(
    policy: Policy, world: LiveWorld, history: Sequence[Wanted], around: Around
) -> list[tuple[float, Decision]]:
    """The same clients, as the governor was told of them, on the virtual clock."""
    arrivals = [
        Arrival(
            at=event.at - START,
            tenant=event.tenant,
            model=event.model,
            prompt_tokens=event.prompt_tokens,
            output_tokens=client.output,
            max_output_tokens=event.max_output_tokens,
            hashes=event.prefix_hashes,
            hash_tokens=event.prefix_block_tokens,
            criticality=client.criticality,
            streaming=event.streaming,
            patience=client.patience,
        )
        for event, client in zip(world.arrivals, history, strict=True)
    ]
    seen: list[tuple[float, Decision]] = []
    run = Simulation(
        policy,
        around.profiles,
        arrivals,
        lambda _: None,
        START,
        seen=lambda at, decision: seen.append((at, decision)),
        outages=around.outages,
    )
    for event in around.reports():
        run.run(event.at)
        run.tell(event)
    run.run()
    return seen


def told(decision: Decision) -> Any:
    """A decision as plain values; ids of traces are the hands' own."""
    if isinstance(decision, Settle):
        # a trace is named by dice of the live hands; of a text that repeats itself a simulation knows nothing
        record = msgspec.structs.replace(decision.record, trace_id="", prompt_entropy=None)
        return ["settle", msgspec.to_builtins(record), msgspec.to_builtins(decision.entries)]
    return [type(decision).__name__, msgspec.to_builtins(decision)]


def close(left: Any, right: Any) -> bool:
    """Equal, but for floats, which may differ by a microsecond."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or abs(left - right) <= 1e-6
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    return bool(left == right)


def differences(left: Any, right: Any, place: str = "") -> list[str]:
    """Where two such values differ, with both values."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
        pairs = [(str(number), *pair) for number, pair in enumerate(zip(left, right, strict=True))]
    elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        pairs = [(key, left[key], right[key]) for key in left]
    else:
        return [] if close(left, right) else [f"{place}: {left!r} / {right!r}"]
    return [each for name, one, other in pairs for each in differences(one, other, f"{place}.{name}")]


def same(policy: Policy, history: list[Wanted], around: Around | None = None) -> list[Decision]:
    """Hold the decisions of both worlds to each other, one by one; those of the live one."""
    around = around or Around()
    history, at = [msgspec.structs.replace(client) for client in history], 0.0
    for number, client in enumerate(history):
        # No two things at one instant: like replicas that start like jobs together would end their steps together,
        # and which is told first is then a matter of rounding.
        at += client.at + 0.000137 * sqrt(number + 2)
        client.at = at
    world = LiveWorld(policy, around.profiles, history, around.outages, around.reports())
    world.run()
    ours = [(at, decision) for at, decision in world.recorder.decisions if not isinstance(decision, WakeAt)]
    theirs = [(at, d) for at, d in simulated(policy, world, history, around) if not isinstance(d, WakeAt)]
    for (at, decision), (their_at, theirs_too) in zip(ours, theirs, strict=False):
        left, right = [at, *told(decision)], [their_at, *told(theirs_too)]
        assert close(left, right), f"live and simulated differ in {sorted(differences(left, right))}"
    assert len(ours) == len(theirs)
    return [decision for _, decision in ours]
