"""The `alerts` section: read whole, and every fault told."""

import pytest

from plimsoll.errors import PolicyError
from plimsoll.policy.alerts import AlertChannel, AlertRules, Severity
from plimsoll.policy.document import parse

BASE = """
plimsoll: 1
tiers: [{name: gold, rank: 0, objectives: [{sli: ttft, below: 1s, target: 99%}]}]
tenants: [{name: acme, tier: gold, keys: ["sha256:KEY"]}]
pools: [{name: chat, model: m, engine: vllm, replicas: ["http://127.0.0.1:8000"]}]
""".replace("KEY", "0" * 64)


def test_all_keys() -> None:
    rules = parse(
        BASE
        + """
alerts:
  channels:
    - {name: team, url_env: ALERTS_TEAM}
    - {name: on-call, url_env: ALERTS_ON_CALL, severity: page}
  repeat_every: 12h
  resolve_after: 0s
  escalate_after: 2h
  per_minute: 3
"""
    ).alerts
    channels = (AlertChannel("team", "ALERTS_TEAM"), AlertChannel("on-call", "ALERTS_ON_CALL", Severity.PAGE))
    assert rules == AlertRules(channels, 43_200.0, 0.0, 7200.0, 3)


def test_nobody_is_told_by_default() -> None:
    assert parse(BASE).alerts == AlertRules()


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("channels: [{name: team}]", "alerts.channels[0].url_env"),
        ("channels: [{name: team, url_env: 'slack://token'}]", "must be the name of an environment variable"),
        ("channels: [{name: a, url_env: A}, {name: a, url_env: B}]", "two channels are named 'a'"),
        ("channels: [{name: a, url_env: A, severity: pager}]", "none of ticket, page"),
        ("per_minute: 0", "at least 1"),
        ("escalate_afte: 2h", "nearest known key: escalate_after"),
    ],
)
def test_faults(section: str, told: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse(f"{BASE}\nalerts: {{{section}}}")
    assert told in str(error.value)
