"""Rules of another package: the example is installed into a folder on the path, named by a policy, and decides."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.errors import UsageError
from plimsoll.governor.decisions import Dispatch
from plimsoll.governor.events import PolicyChanged
from plimsoll.governor.snapshot import RuleState
from plimsoll.policy import document
from plimsoll.policy.policy import Scheduling, Tenant
from plimsoll.slo.outcome import Reason
from tests.governor.service import Service, only, refused, replica_of
from tests.laws.histories import START, Traffic, World, policy_of
from tests.laws.test_every_rule import settles_everybody_and_replays

EXAMPLE = Path(__file__).parents[2] / "examples" / "rules"
TENANTS = (Tenant("ada", "gold"), Tenant("bob", "gold"))
POLICY = """
plimsoll: 1
tiers: [{{name: gold, rank: 0}}]
scheduling: {{{}}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the example is installed, on the path of this process."""
    place = tmp_path_factory.mktemp("installed")
    source = place / "source"
    shutil.copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--target", str(place), str(source)], check=True)
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))
    sys.modules.pop("plimsoll_example_rules", None)


def broken(folder: Path, kind: str, name: str, body: str) -> None:
    """One more package there, with a rule of its own."""
    (folder / f"{name}.py").write_text(body)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[plimsoll.{kind}]\n{name} = {name}:Rule\n")


def busy(scheduling: Scheduling) -> Service:
    """One replica with room for one request of 20 blocks at a time, which is busy."""
    service = Service(policy_of(tenants=TENANTS, num_replicas=1, scheduling=scheduling), kv_blocks=20)
    service.ask(1, "ada", prefix_hashes=(1, 2), prefix_block_tokens=64)
    return service


def test_an_order_by_entry_point_chooses_within_fair_turns(folder: Path) -> None:
    policy = document.parse(POLICY.format("order: shortest"))
    service = busy(policy.scheduling)
    service.ask(1.1, "ada", output=160)
    service.ask(1.2, "bob", output=50)
    service.ask(1.3, "ada", output=20)
    sent = only(Dispatch, service.done(1.5, 1))
    assert (sent.request_id, sent.reason) == (4, Reason.PREFERRED)
    assert only(Dispatch, service.done(1.6, 4)).request_id == 3


def test_a_routing_by_entry_point_chooses_the_replica(folder: Path) -> None:
    service = Service(policy_of(tenants=TENANTS, scheduling=Scheduling(routing="least_work")))
    first = replica_of(service.ask(1, prompt=4000))
    assert replica_of(service.ask(1.1, prompt=100)) != first
    assert replica_of(service.ask(1.2, prompt=100)) != first, "4,000 prompt tokens wait there"


def test_an_admission_by_entry_point_refuses_with_its_words_and_remembers(folder: Path) -> None:
    service = Service(policy_of(tenants=TENANTS, num_replicas=1, scheduling=Scheduling(admission="short_while_busy")))
    only(Dispatch, service.ask(1, prompt=9000, output=1000))
    service.ask(1.1, prompt=7000, output=1000)
    reason, detail = refused(service.ask(1.2, prompt=9000))
    assert reason is Reason.ADMISSION_RULE
    assert "9000 tokens" in detail
    assert service.governor.snapshot(START + 2).counts[0].by_state["rejected"] == 1


def test_a_rule_that_raises_costs_no_request_and_is_counted(folder: Path) -> None:
    for kind, name, method in (
        ("orders", "bad_order", "cost(self, request, replica, held, at)"),
        ("routings", "bad_routing", "cost(self, request, replica, held, at)"),
        ("admissions", "bad_admission", "refuse(self, request, pool, at)"),
    ):
        broken(folder, kind, name, f"class Rule:\n    def {method}:\n        raise RuntimeError('no idea')\n")
    service = busy(Scheduling(order="bad_order", routing="bad_routing", admission="bad_admission"))
    service.ask(1.1, "ada")
    service.ask(1.2, "bob")
    assert only(Dispatch, service.done(1.5, 1)).request_id == 2
    told = {rule.kind: (rule.name, rule.num_faults > 0, rule.last_fault) for rule in _rules(service)}
    fault = "RuntimeError: no idea"
    assert told == {
        "order": ("bad_order", True, fault),
        "routing": ("bad_routing", True, fault),
        "admission": ("bad_admission", True, fault),
    }


def test_what_is_no_number_is_a_fault_of_the_rule(folder: Path) -> None:
    broken(folder, "routings", "not_a_number", "class Rule:\n    def cost(self, *_):\n        return float('nan')\n")
    service = Service(policy_of(tenants=TENANTS, scheduling=Scheduling(routing="not_a_number")))
    assert replica_of(service.ask(1)) == "http://r0"
    assert _rules(service)[0].num_faults == 1


def test_a_rule_keeps_what_it_has_learnt_over_a_reload_that_still_names_it(folder: Path) -> None:
    policy = policy_of(tenants=TENANTS, scheduling=Scheduling(admission="forgetful"))
    broken(folder, "admissions", "forgetful", "class Rule:\n    def refuse(self, *_):\n        raise KeyError(1)\n")
    service = Service(policy)
    service.ask(1)
    service.governor.handle(PolicyChanged(START + 2, policy))
    assert _rules(service)[0].num_faults == 1
    service.governor.handle(PolicyChanged(START + 3, policy_of(tenants=TENANTS)))
    assert not _rules(service)


@pytest.mark.parametrize(
    ("key", "name", "words"),
    [
        (
            "order",
            "shortes",
            "'shortes' is none of fair, edf, locality, turns, fcfs, and no installed package adds the order",
        ),
        ("order", "shortes", "nearest: shortest"),
        ("routing", "shortest", "no installed package adds the routing 'shortest'"),
        ("admission", "cannot", "cannot be used: ZeroDivisionError"),
        ("admission", "empty", "has no method refuse"),
    ],
)
def test_what_cannot_be_used_is_told_by_its_key(folder: Path, key: str, name: str, words: str) -> None:
    broken(folder, "admissions", "cannot", "1 / 0\n")
    broken(folder, "admissions", "empty", "class Rule:\n    pass\n")
    examination = document.examine(POLICY.format(f"{key}: {name}"))
    (fault,) = examination.faults
    assert fault.path == f"scheduling.{key}"
    assert words in str(fault)


def test_a_governor_refuses_a_policy_whose_rule_is_not_there_and_keeps_the_one_before() -> None:
    service = Service(policy_of(tenants=TENANTS))
    with pytest.raises(UsageError, match="no installed package adds the order 'nobody'"):
        service.governor.handle(
            PolicyChanged(START + 1, policy_of(version="v2", scheduling=Scheduling(order="nobody")))
        )
    assert service.governor.policy.version == "v1"
    assert replica_of(service.ask(2))


def test_the_laws_hold_under_rules_of_others(folder: Path) -> None:
    rules = Scheduling(order="shortest", routing="least_work", admission="short_while_busy")
    settles_everybody_and_replays(rules)
    policy = policy_of(scheduling=rules)
    world = World(Service(policy).governor, Traffic(rate=80.0), seed=3)
    reasons = {d.reason for _, made in world.run(600) for d in made if isinstance(d, Dispatch)}
    assert Reason.PREFERRED in reasons


def _rules(service: Service) -> tuple[RuleState, ...]:
    return service.governor.snapshot(START + 5).rules
