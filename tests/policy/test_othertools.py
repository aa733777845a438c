"""Sloth, Pyrra and slo-generator files: what each becomes."""

from fractions import Fraction

import pytest

from plimsoll.policy.slospec import Definition, Kind, Slo, Window, dns_label
from plimsoll.policy.specfiles import read_text
from tests.policy.slo_files import imported, texts


def only(path: str) -> Slo:
    (slo,) = imported(path).slos
    return slo


def test_sloth_is_read_whole() -> None:
    slo = only("sloth/examples/getting-started.yml")
    assert (slo.meta.name, slo.service, slo.target) == ("requests-availability", "myservice", Fraction(999, 1000))
    assert slo.meta.labels == {"owner": ("myteam",), "repo": ("myorg/myservice",), "tier": ("2",)}
    assert slo.window == Window(30, "d")
    assert slo.indicator is not None
    assert slo.indicator.kind is Kind.BAD_TOTAL
    policies = [alert for alert in slo.alerts if isinstance(alert, Definition)]
    assert [policy.meta.name for policy in policies] == [
        f"requests-availability-{severity}" for severity in ("page-1h", "page-6h", "ticket-1d", "ticket-3d")
    ]
    assert policies[0].meta.labels == {
        "category": ("availability",),
        "severity": ("pageteam",),
        "routing_key": ("myteam",),
    }
    assert policies[0].spec["conditions"][0]["spec"]["condition"] == {
        "kind": "burnrate", "op": "gt", "threshold": 14.4, "lookbackWindow": "1h",
    }  # fmt: skip


def test_the_sloth_resource_says_the_same_as_the_file() -> None:
    file, resource = imported("sloth/examples/home-wifi.yml").slos, imported("sloth/examples/k8s-home-wifi.yml").slos
    assert [(slo.target, slo.description, slo.alerts) for slo in file] == [
        (slo.target, slo.description, slo.alerts) for slo in resource
    ]
    assert resource[0].meta.annotations["plimsoll/namespace"] == "monitoring"


def test_sloth_alerts_that_are_disabled_are_none() -> None:
    assert only("sloth/examples/no-alerts.yml").alerts == ()


def test_keys_that_sloth_ignores_are_told_with_the_nearest() -> None:
    reasons = [
        loss.reason for loss in imported("sloth/test/integration/prometheus/testdata/validate/good/good-aa.yaml").losses
    ]
    assert reasons == ["no key of Sloth (nearest: page_alert)", "no key of Sloth (nearest: ticket_alert)"]


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("bad-aa", "line 28: slos[1].objective: must be a percentage below 100"),
        ("bad-k8s", "line 7: spec.service: is empty"),
        ("bad-multi", "line 77: #2.slos[1].sli: needs one of events, raw and plugin"),
        ("bad-multi-k8s", "#1.spec.slos[0].alerting: needs a name"),
    ],
)
def test_the_files_that_sloth_calls_bad_have_their_fault(file: str, fault: str) -> None:
    faults = [
        str(each) for _, each in imported(f"sloth/test/integration/prometheus/testdata/validate/bad/{file}.yaml").faults
    ]
    assert len(faults) == 1
    assert fault in faults[0]


def test_the_files_that_sloth_calls_good_have_none() -> None:
    good = [
        path
        for path in texts()
        if "/validate/good/" in path or (path.startswith("sloth/examples/") and "_gen" not in path)
    ]
    assert len(good) > 20
    for path in good:
        assert not imported(path).faults, path


def test_pyrra_latency_ratio_and_gauge() -> None:
    slo = only("pyrra/examples/caddy-response-latency.yaml")
    assert slo.indicator is not None
    assert (slo.indicator.kind, slo.target, slo.window) == (Kind.LATENCY, Fraction(9, 10), Window(4, "w"))
    native = only("pyrra/examples/pyrra-connect-latency.yaml")
    assert native.indicator is not None
    assert (native.indicator.kind, native.op, native.value) == (Kind.LATENCY, "lte", Fraction(1, 5))
    assert native.indicator.queries["metric"].spec["grouping"] == ["service", "method"]
    gauge = only("pyrra/examples/prometheus-probe-success.yaml")
    assert gauge.indicator is not None
    assert gauge.indicator.kind is Kind.SUCCESS


def test_the_alert_settings_of_pyrra_are_told_as_lost() -> None:
    text = texts()["pyrra/examples/caddy-response-latency.yaml"] + "  alerting: {absent: false}\n"
    losses = read_text(text, "x").losses
    assert [loss.path for loss in losses] == ["spec.alerting"]


@pytest.mark.parametrize(
    ("file", "kind", "value"),
    [
        ("prometheus/slo_prom_metrics_availability_ratio", Kind.GOOD_TOTAL, None),
        ("prometheus/slo_prom_metrics_availability_query_sli", Kind.SUCCESS, None),
        ("prometheus/slo_prom_metrics_latency_distribution_cut", Kind.LATENCY, Fraction(1, 4)),
        ("dynatrace/slo_dt_app_latency_threshold", Kind.THRESHOLD, 50_000),
        ("cloud_service_monitoring/slo_gae_app_latency_basic", Kind.LATENCY, 724),
        ("cloud_monitoring/slo_pubsub_subscription_throughput", Kind.GOOD_BAD, None),
    ],
)
def test_methods_of_slo_generator(file: str, kind: Kind, value: Fraction | None) -> None:
    slo = only(f"slo-generator/samples/{file}.yaml")
    assert slo.indicator is not None
    assert (slo.indicator.kind, slo.value) == (kind, value)


def test_a_goal_of_one_is_a_fault() -> None:
    ((_, fault),) = imported("slo-generator/samples/elasticsearch/slo_elk_test_ratio.yaml").faults
    assert (fault.path, fault.line) == ("spec.goal", 27)


def test_slo_generator_v1_is_read_like_v2() -> None:
    old, new = (
        only("slo-generator/tests/unit/fixtures/slo_config_v1.yaml"),
        only("slo-generator/tests/unit/fixtures/slo_config_v2.yaml"),
    )
    assert (old.meta.name, old.target, old.service) == (new.meta.name, new.target, new.service)


def test_dns_labels_are_stable_and_valid() -> None:
    assert dns_label("My rad_Service!") == "my-rad-service"
    assert dns_label("…") == "unnamed"
    long = dns_label("a" * 100)
    assert len(long) <= 63
    assert long != dns_label("a" * 101)
    assert dns_label(long) == long


def test_a_description_that_is_too_long_is_cut_and_told() -> None:
    text = texts()["sloth/examples/no-alerts.yml"].replace("Common SLO", "x" * 1100)
    found = read_text(text, "x")
    assert len(found.slos[0].description) == 1050
    assert any("cut to the 1050" in loss.reason for loss in found.losses)
