"""Named sets of scheduling rules, so that one policy can be run beside what it is measured against."""

from typing import Final

from msgspec.structs import replace

from plimsoll.errors import UsageError
from plimsoll.policy.policy import Order, Policy, RoutingRule, Scheduling
from plimsoll.policy.schedulingrules import Late

PRESETS: Final[dict[str, Scheduling]] = {
    "default": Scheduling(),
    "fcfs": Scheduling(
        order=Order.FCFS,
        routing=RoutingRule.ROUND_ROBIN,
        tiers_matter=False,
        reserve_kv=False,
    ),
    "least_requests": Scheduling(
        order=Order.FCFS,
        routing=RoutingRule.LEAST_REQUESTS,
        tiers_matter=False,
        reserve_kv=False,
    ),
    "vtc": Scheduling(tiers_matter=False, late=Late.IN_TURN),
}
"""`default`: rank, floors, fairness within a tier, admission by KV footprint, routing by load and prefix.

`fcfs`: what a plain proxy does: everything goes on at once, replicas in turn, and engines queue for themselves.
`least_requests`: the same, to the replica with the fewest requests.
`vtc`: fair shares of all tenants by virtual token counters, and nothing else: no tiers.
"""


def preset(policy: Policy, name: str) -> Policy:
    """The same promises, tenants and pools under other scheduling rules; UsageError for an unknown name."""
    if name not in PRESETS:
        raise UsageError(f"no preset is named {name!r}; known: {', '.join(PRESETS)}")
    return replace(policy, scheduling=PRESETS[name])
