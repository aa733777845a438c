"""Reads Pyrra's ServiceLevelObjective (pyrra.dev/v1alpha1)."""

from fractions import Fraction
from typing import Any, Final

from plimsoll.errors import UnitError
from plimsoll.policy.foreign import Value
from plimsoll.policy.naming import NAMESPACE, read_description, read_meta
from plimsoll.policy.slospec import Indicator, Meta, Query, Slo, Window, indicator
from plimsoll.policy.windows import shorthand
from plimsoll.units import parse_duration

_KINDS: Final = ("ratio", "latency", "latencyNative", "bool_gauge")
_OUTPUT: Final = {
    "alerting": "shapes the alerts that Pyrra makes; `plimsoll rules` makes its own",
    "partial_response_strategy": "is for Thanos' ruler alone",
    "performanceOverAccuracy": "shapes the rules that Pyrra makes",
    "ruleOutput": "shapes the rules that Pyrra makes",
}


def read_pyrra(document: Value) -> list[Slo]:
    """One document, one SLO. It names no service: its namespace, else its own name, stands for one."""
    document.text("apiVersion")
    document.choice("kind", ("ServiceLevelObjective",), required=True)
    document.lose_key("status", "what Pyrra found, no part of the objective")
    meta = read_meta(document)
    spec = document.mapping("spec", required=True)
    if spec is None:
        return []
    for key, reason in _OUTPUT.items():
        spec.lose_key(key, reason)
    value, found = _read_indicator(spec, meta)
    return [
        Slo(
            meta=meta,
            service=meta.annotations.get(NAMESPACE) or meta.name,
            target=_read_target(spec),
            window=_read_window(spec),
            description=read_description(spec),
            indicator=found,
            op="lte" if value is not None else "",
            value=value,
        )
    ]


def _read_target(spec: Value) -> Fraction:
    percent = spec.number("target", required=True)
    place = spec.get("target")
    if percent is not None and place is not None and not 0 <= percent < 100:
        place.fault("must be a percentage below 100: a target of 100 % leaves no budget")
    return (percent or Fraction(0)) / 100


def _read_window(spec: Value) -> Window | None:
    place = spec.need("window")
    return None if place is None else shorthand(place)


def _read_indicator(spec: Value, meta: Meta) -> tuple[Fraction | None, Indicator | None]:
    section = spec.mapping("indicator", required=True)
    if section is None:
        return None, None
    given = [kind for kind in _KINDS if kind in section]
    if len(given) != 1:
        section.fault(f"needs one of {', '.join(_KINDS)}")
        section.plain()
        return None, None
    body = section.mapping(given[0])
    if body is None:
        return None, None
    grouping = body.get("grouping")
    groups: dict[str, Any] = {"grouping": grouping.plain()} if grouping is not None else {}
    value, queries = _read_queries(given[0], body, groups)
    return value, indicator(Meta(meta.name), queries)


def _read_queries(kind: str, body: Value, groups: dict[str, Any]) -> tuple[Fraction | None, dict[str, Query]]:
    if kind == "ratio":
        return None, {"bad": _read_metric(body, "errors", {}), "total": _read_metric(body, "total", groups)}
    if kind == "latency":
        return None, {"good": _read_metric(body, "success", {}), "total": _read_metric(body, "total", groups)}
    if kind == "bool_gauge":
        return None, {"success": Query({"metric": body.text("metric", required=True)} | groups, "Prometheus")}
    written = body.text("latency", required=True)
    total = _read_metric(body, "total", groups)
    return _seconds(body, written), {"metric": Query(dict(total.spec) | {"latency": written}, "Prometheus")}


def _read_metric(body: Value, key: str, groups: dict[str, Any]) -> Query:
    section = body.mapping(key, required=True)
    metric = section.text("metric", required=True) if section is not None else ""
    return Query({"metric": metric} | groups, "Prometheus")


def _seconds(body: Value, written: str) -> Fraction | None:
    place = body.get("latency")
    if place is None or not written:
        return None
    try:
        return Fraction(repr(parse_duration(written)))
    except UnitError as error:
        place.fault(str(error))
        return None
