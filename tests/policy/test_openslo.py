"""OpenSLO: what is read, what is refused, and what is written is valid."""

from fractions import Fraction
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from plimsoll.policy.openslo_form import to_openslo
from plimsoll.policy.slospec import Budgeting, Kind, Window
from plimsoll.policy.specfiles import read_text
from tests.policy.openslo_v1 import SCHEMA
from tests.policy.slo_files import imported, texts

VALID = Draft202012Validator(SCHEMA)


def plain(text: str) -> list[Any]:
    yaml = YAML(typ="safe", pure=True)
    # dates stay texts, as OpenSLO has them
    yaml.constructor.yaml_constructors["tag:yaml.org,2002:timestamp"] = lambda _, node: node.value
    found = [document for document in yaml.load_all(text) if document is not None]
    return [_given(item) for document in found for item in (document if isinstance(document, list) else [document])]


def _given(value: Any) -> Any:
    """Without keys that have no value: nothing was given there."""
    if isinstance(value, dict):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list) else value


def v1_files() -> list[str]:
    return [path for path in texts() if set(imported(path).sources.values()) == {"OpenSLO v1"}]


def test_the_schema_and_the_reader_agree_on_every_v1_file() -> None:
    """What the schema takes has no fault; what it refuses has one, or a warning that says how it was taken."""
    num_valid = num_invalid = 0
    for path in v1_files():
        valid = all(VALID.is_valid(document) for document in plain(texts()[path]))
        alone = read_text(texts()[path], path)
        taken_otherwise = [warning for _, warning in alone.warnings if "compared by op" not in warning.message]
        if valid:
            assert not alone.faults, path
            assert not taken_otherwise, path
        else:
            assert alone.faults or taken_otherwise or alone.losses, path
        num_valid, num_invalid = num_valid + valid, num_invalid + (not valid)
    assert num_valid > 30
    assert num_invalid > 5


def test_everything_that_is_written_is_valid() -> None:
    num = 0
    for path in texts():
        for form in to_openslo(imported(path))[0]:
            assert [error.message for error in VALID.iter_errors(form)] == [], path
            num += 1
    assert num > 200


def test_a_v1_slo_is_read_whole() -> None:
    (slo,) = imported("openslo-go-sdk/pkg/openslo/v1/examples/slos.yaml").slos
    assert (slo.meta.name, slo.meta.display_name, slo.service) == (
        "web-availability",
        "SLO for web availability",
        "web",
    )
    assert slo.meta.labels == {"env": ("prod",), "team": ("team-a", "team-b")}
    assert (slo.target, slo.slice_target, slo.slice_window) == (Fraction(199, 200), Fraction(19, 20), Window(1, "m"))
    assert slo.budgeting is Budgeting.TIMESLICES
    assert slo.window == Window(1, "w", rolling=False, start="2022-01-01 12:00:00", timezone="America/New_York")
    assert slo.window.seconds == 604_800
    assert slo.indicator is not None
    assert (slo.indicator.kind, slo.indicator.counter) == (Kind.GOOD_TOTAL, True)
    assert (
        slo.indicator.queries["good"].text == 'sum(http_requests{k8s_cluster="prod",component="web",code=~"2xx|4xx"})'
    )


def test_objectives_of_one_slo_become_slos_of_their_own() -> None:
    slos = imported("openslo/examples/budgeting-method/timeslices-slo.yaml").slos
    assert [(slo.meta.name, slo.objective, slo.target) for slo in slos] == [
        ("service-availability-1", "Internal objective", Fraction(199, 200)),
        ("service-availability-2", "SLA", Fraction(99, 100)),
    ]


def test_v1alpha_is_read_into_the_same_form() -> None:
    threshold, ratio = imported("openslo-go-sdk/pkg/openslo/v1alpha/examples/slos.yaml").slos
    assert threshold.indicator is not None
    assert ratio.indicator is not None
    assert (threshold.op, threshold.value, threshold.indicator.queries["metric"].type) == (
        "gt",
        Fraction(200),
        "Prometheus",
    )
    assert ratio.indicator.queries["total"].spec == {"queryType": "query", "query": "sum:requests{service:web}"}
    assert ratio.window == Window(1, "w", rolling=False, start="2022-01-01 12:00:00", timezone="America/New_York")


SLO = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: a}
spec:
  service: s
  indicator:
    metadata: {name: i}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {spec: {q: g}}}
        total: {metricSource: {spec: {q: t}}}
  timeWindow: [{duration: 28d, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{target: 0.99}]
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("0.99", "99", "spec.objectives[0].target: must be at least 0 and below 1"),
        ("0.99", "1", "a target of 100 % leaves no budget"),
        ("0.99", ".nan", "must be a number"),
        ("target: 0.99", "targetPercent: 99, target: 0.9", "both target and targetPercent"),
        ("target: 0.99", "displayName: x", "needs a target"),
        ("28d", "28 days", "'28 days' is no duration"),
        ("isRolling: true", "isRolling: false", "needs a calendar"),
        ("isRolling: true", "isRolling: maybe", "must be true or false"),
        ("Occurrences", "Occurences", "nearest: Occurrences"),
        ("Occurrences", "Timeslices", "timeSliceTarget: missing"),
        ("service: s", "service: ''", "spec.service: is empty"),
        ("service: s", "servce: s", "spec.servce: no key of OpenSLO v1 (nearest: service)"),
        ("good:", "goood:", "needs good and total, bad and total, or raw"),
        ("{q: g}", "{}", "spec: is empty"),
        ("{name: a}", "{name: [a]}", "must be one value"),
        ("kind: SLO", "kind: SLOO", "no kind 'SLOO'"),
        ("  indicator:", "  indicatorRef: i\n  indicator:", "either an indicator or an indicatorRef"),
    ],
)
def test_faults_are_told_with_their_places(old: str, new: str, fault: str) -> None:
    assert read_text(SLO, "x").faults == ()
    found = read_text(SLO.replace(old, new, 1), "x")
    assert not found.slos
    assert any(fault in str(each) for _, each in found.faults), [str(each) for _, each in found.faults]
    assert all(each.line > 0 for _, each in found.faults)


def test_an_unknown_field_is_told_where_it_stands() -> None:
    ((_, fault),) = imported("openslo-oslo/test/inputs/validate/unknown-field.yaml").faults
    assert (fault.path, fault.line, fault.message) == ("spec.markdown", 6, "no key of OpenSLO v1")


def test_all_faults_are_told_at_once() -> None:
    text = SLO.replace("0.99", "99").replace("28d", "x").replace("service: s", "servce: s")
    assert len(read_text(text, "x").faults) == 4


def test_targets_are_exact() -> None:
    (slo,) = read_text(SLO.replace("target: 0.99", "targetPercent: 99.95"), "x").slos
    assert slo.target == Fraction(9995, 10_000)


def test_a_name_that_is_no_dns_label_is_kept_beside_the_label() -> None:
    found = imported("openslo-slogen/samples/sumologic/v1/logs-req-rolling.yaml")
    (slo,) = found.slos
    assert (slo.meta.name, slo.meta.annotations["plimsoll/name"]) == ("drift-gen-rolling", "drift_gen_Rolling")
    assert slo.alerts == ("high-burn-rate",)
    assert any("is no DNS label" in warning.message for _, warning in found.warnings)
    assert any("refers to 'high-burn-rate' here" in loss.reason for loss in found.losses)
