"""Objectives on the latency of LLM engines, recognised among SLOs of others."""

from fractions import Fraction

import pytest

from plimsoll.policy.document import parse
from plimsoll.policy.llm import policy_fragment, recognise
from plimsoll.policy.objective import Sli
from plimsoll.policy.slospec import Slo
from plimsoll.policy.specfiles import read_text

SLOTH = """\
version: prometheus/v1
service: chat
slos:
  - name: first-token
    objective: 99.5
    sli:
      events:
        error_query: |
          sum(rate(vllm:time_to_first_token_seconds_count{{model="a-b"}}[{{{{.window}}}}]))
          - sum(rate(vllm:time_to_first_token_seconds_bucket{{model="a-b",le="{le}"}}[{{{{.window}}}}]))
        total_query: sum(rate(vllm:time_to_first_token_seconds_count{{model="a-b"}}[{{{{.window}}}}]))
    alerting: {{page_alert: {{disable: true}}, ticket_alert: {{disable: true}}}}
"""
PYRRA = """\
apiVersion: pyrra.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {{name: itl, namespace: chat}}
spec:
  target: "99.9"
  window: 4w
  indicator:
    {indicator}
"""
NATIVE = 'latencyNative: {latency: 150ms, total: {metric: "sglang:inter_token_latency_seconds"}}'
CLASSIC = """latency:
      success: {metric: 'tgi_request_duration_bucket{le="20"}'}
      total: {metric: tgi_request_duration_count}"""


def only(text: str) -> Slo:
    found = read_text(text, "x")
    assert not found.faults, found.faults
    (slo,) = found.slos
    return slo


@pytest.mark.parametrize(
    ("text", "sli", "below", "target"),
    [
        (SLOTH.format(le="0.8"), Sli.TTFT, Fraction(4, 5), Fraction(199, 200)),
        (PYRRA.format(indicator=NATIVE), Sli.ITL, Fraction(3, 20), Fraction(999, 1000)),
        (PYRRA.format(indicator=CLASSIC), Sli.E2E, Fraction(20), Fraction(999, 1000)),
    ],
)
def test_latency_objectives_are_recognised(text: str, sli: Sli, below: Fraction, target: Fraction) -> None:
    found = recognise(only(text))
    assert not isinstance(found, str), found
    assert (found.sli, found.below, found.slo.target) == (sli, below, target)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SLOTH.format(le="0.8").replace("vllm:", "other:"), "no latency metric of an engine"),
        (SLOTH.format(le="+Inf"), "has no threshold"),
        (SLOTH.format(le="0.8").replace("_count{", '_bucket{le="1",'), "several thresholds: 0.8, 1"),
        (SLOTH.format(le="0.8").replace("- sum", "+ sum"), "counts fast events as bad"),
        (SLOTH.format(le="fast"), "no number"),
        (
            SLOTH.format(le="0.8").replace("total_query: sum", "total_query: histogram_quantile"),
            "quantile over windows",
        ),
        (PYRRA.format(indicator="bool_gauge: {metric: 'vllm:e2e_request_latency_seconds'}"), "has no threshold"),
    ],
)
def test_what_promises_something_else_says_so(text: str, reason: str) -> None:
    found = recognise(only(text))
    assert isinstance(found, str)
    assert reason in found


def test_the_fragment_is_a_part_of_a_good_policy() -> None:
    from plimsoll.policy.specfiles import read_files

    imported = read_files(
        [
            ("a", SLOTH.format(le="0.8")),
            ("b", SLOTH.format(le="0.0005").replace("first-token", "quick")),
            ("c", PYRRA.format(indicator=NATIVE)),
            (
                "d",
                PYRRA.format(indicator=CLASSIC)
                .replace("name: itl", "name: e2e")
                .replace("namespace: chat", "namespace: Batch"),
            ),
        ]
    )
    text, others = policy_fragment(imported)
    assert others == []
    policy = parse(f"plimsoll: 1\npools: [{{name: p, model: m, engine: vllm, replicas: ['http://h:1']}}]\n{text}")
    chat, batch = policy.tiers
    assert (chat.name, batch.name) == ("chat", "batch")
    assert [(each.name, each.below, each.target) for each in chat.objectives[:3]] == [
        ("ttft", 0.8, Fraction(199, 200)),
        ("quick", 0.0005, Fraction(199, 200)),
        ("itl", 0.15, Fraction(999, 1000)),
    ]


def test_nothing_recognised_is_no_fragment() -> None:
    text, others = policy_fragment(read_text(SLOTH.format(le="0.8").replace("vllm:", "other:"), "x"))
    assert (text, len(others)) == ("", 1)
