"""Reads the alerting objects of OpenSLO v1 into the form in which they are written again."""

from typing import Any, Final

from plimsoll.policy.foreign import Value
from plimsoll.policy.naming import read_description, read_meta, read_ref, ref_of
from plimsoll.policy.openslo_form import inline_form
from plimsoll.policy.slospec import Definition, number
from plimsoll.policy.windows import shorthand

OPERATORS: Final = ("lte", "gte", "lt", "gt")
_FLAGS: Final = ("alertWhenNoData", "alertWhenResolved", "alertWhenBreaching")


def read_alert_refs(spec: Value) -> tuple[Definition | str, ...]:
    """`alertPolicies` of an SLO: policies written there, or names of others."""
    found: list[Definition | str] = []
    for item in spec.items("alertPolicies"):
        if not item.is_mapping:
            if (name := item.scalar()) is not None:
                item.warn("OpenSLO writes {alertPolicyRef: NAME}: taken as that")
                found.append(ref_of(name, item))
        elif "alertPolicyRef" in item:
            found.append(read_ref(item, "alertPolicyRef"))
        else:
            found.append(_read_inline(item, "AlertPolicy"))
    return tuple(found)


def read_policy(spec: Value) -> dict[str, Any]:
    """The spec of an AlertPolicy."""
    read: dict[str, Any] = _described(spec)
    for flag in _FLAGS:
        if (given := spec.flag(flag)) is not None:
            read[flag] = given
    conditions = [
        _ref_or_inline(item, "conditionRef", "AlertCondition") for item in spec.items("conditions", required=True)
    ]
    if len(conditions) > 1:
        spec.fault("has more than the one condition that OpenSLO v1 allows", "write a policy for each")
    read["conditions"] = conditions
    targets = spec.items("notificationTargets", required=True)
    read["notificationTargets"] = [_ref_or_inline(item, "targetRef", "AlertNotificationTarget") for item in targets]
    return read


def read_condition(spec: Value) -> dict[str, Any]:
    """The spec of an AlertCondition."""
    read: dict[str, Any] = _described(spec) | {"severity": spec.text("severity", required=True)}
    condition = spec.mapping("condition", required=True)
    if condition is None:
        return read
    read["condition"] = form = {
        "kind": condition.choice("kind", ("burnrate",)) or "burnrate",
        "op": condition.choice("op", OPERATORS, required=True),
    }
    if (threshold := condition.number("threshold", required=True)) is not None:
        form["threshold"] = number(threshold)  # type: ignore[assignment]
    for key, required in (("lookbackWindow", True), ("alertAfter", False)):
        place = condition.need(key) if required else condition.get(key)
        if place is not None and (window := shorthand(place)) is not None:
            form[key] = str(window)
    return read


def read_target(spec: Value) -> dict[str, Any]:
    """The spec of an AlertNotificationTarget."""
    return _described(spec) | {"target": spec.text("target", required=True)}


READERS: Final = {"AlertPolicy": read_policy, "AlertCondition": read_condition, "AlertNotificationTarget": read_target}


def _described(spec: Value) -> dict[str, Any]:
    description = read_description(spec)
    return {"description": description} if description else {}


def _ref_or_inline(item: Value, ref: str, kind: str) -> dict[str, Any]:
    if not item.is_mapping:
        item.fault(f"must be a section with {ref}, or with kind, metadata and spec")
        return {}
    if ref in item:
        return {ref: read_ref(item, ref)}
    return inline_form(_read_inline(item, kind))


def _read_inline(item: Value, kind: str) -> Definition:
    item.choice("kind", (kind,), required=True)
    meta = read_meta(item)
    spec = item.mapping("spec", required=True)
    return Definition(kind, meta, READERS[kind](spec) if spec is not None else {})
