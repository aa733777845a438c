"""Reads OpenSLO v1 and v1alpha (github.com/OpenSLO/OpenSLO, README of tag v1.0 and of v0.1)."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from msgspec.structs import replace

from plimsoll.policy.account import join
from plimsoll.policy.foreign import Value
from plimsoll.policy.naming import read_description, read_meta, read_ref
from plimsoll.policy.openslo_alerts import OPERATORS, read_alert_refs, read_condition, read_policy, read_target
from plimsoll.policy.openslo_form import indicator_form
from plimsoll.policy.slospec import Budgeting, Definition, Indicator, Meta, Query, Slo, Window, dns_label, indicator
from plimsoll.policy.windows import read_window, shorthand

VERSIONS: Final = {"openslo/v1": "OpenSLO v1", "openslo/v1alpha": "OpenSLO v1alpha"}
_METHODS: Final = tuple([each.value for each in Budgeting])
_SLOGEN: Final = ("createView", "fields", "labels", "alerts")
_OBJECTIVE_KEYS: Final = ("target", "targetPercent")


def read_openslo(document: Value) -> list[Slo | Definition]:
    """The objects of one document of either version; one SLO for each objective."""
    alpha = document.text("apiVersion") == "openslo/v1alpha"
    kind = document.text("kind", required=True)
    if alpha:
        for key in _SLOGEN:
            document.lose_key(key, "an extension of slogen, no part of OpenSLO")
    if kind == "SLO":
        return list(_read_slos(document, alpha))
    read = _OTHERS.get(kind)
    if read is None:
        if kind:
            document.account.fault(join(document.path, "kind"), document.line, f"OpenSLO has no kind {kind[:40]!r}")
        document.plain()
        return []
    meta = read_meta(document)
    spec = document.mapping("spec", required=kind != "Service")
    return [Definition(kind, meta, read(spec, meta) if spec is not None else {})]


def _read_slos(document: Value, alpha: bool) -> list[Slo]:
    meta = read_meta(document)
    spec = document.mapping("spec", required=True)
    if spec is None:
        return []
    window = read_window(spec, "timeWindows" if alpha else "timeWindow")
    budgeting = Budgeting(spec.choice("budgetingMethod", _METHODS, required=True) or Budgeting.OCCURRENCES)
    whole = {
        "service": spec.text("service", required=True),
        "description": read_description(spec),
        "alerts": read_alert_refs(spec),
        "window": window,
    }
    shared = _read_alpha_indicator(spec, meta) if alpha else _read_v1_indicator(spec, meta)
    ref = read_ref(spec, "indicatorRef")
    objectives = list(spec.items("objectives", required=True))
    composite = any(each.is_mapping and ("indicator" in each or "indicatorRef" in each) for each in objectives)
    if not alpha and not composite and (shared is None) is (not ref):
        spec.fault("needs either an indicator or an indicatorRef")
    slos = []
    for i, objective in enumerate(objectives):
        if not objective.is_mapping:
            objective.fault("must be a section of keys")
            continue
        own = replace(meta, name=dns_label(f"{meta.name}-{i + 1}")) if len(objectives) > 1 else meta
        found, own_ref = _read_own(objective, own, alpha=alpha)
        if alpha and found is None and shared is None:
            objective.fault("needs ratioMetrics, or an indicator for the whole SLO")
        measured = {"indicator": found or shared, "indicator_ref": own_ref or ("" if found or shared else ref)}
        slos.append(_read_objective(objective, alpha=alpha, meta=own, budgeting=budgeting, **measured, **whole))
    return slos


def _read_own(objective: Value, meta: Meta, *, alpha: bool) -> tuple[Indicator | None, str]:
    """What this objective alone is measured by: ratioMetrics in v1alpha, a part of a composite in v1."""
    if alpha:
        return _read_alpha_ratio(objective, meta), ""
    if "indicator" not in objective and "indicatorRef" not in objective:
        return None, ""
    objective.lose_key("compositeWeight", "each objective stands for itself here: no composites")
    return _read_v1_indicator(objective, meta), read_ref(objective, "indicatorRef")


def _read_objective(objective: Value, *, alpha: bool, budgeting: Budgeting, **whole: Any) -> Slo:
    slice_window = None
    if (place := objective.get("timeSliceWindow")) is not None:
        slice_window = Window(int(text), "m") if (text := place.scalar() or "").isdigit() else shorthand(place)
    slo = Slo(
        budgeting=budgeting,
        target=_read_target(objective),
        objective=objective.text("displayName"),
        op=objective.choice("op", OPERATORS),
        value=objective.number("value"),
        slice_target=objective.number("timeSliceTarget", required=budgeting is Budgeting.TIMESLICES),
        slice_window=_slice_window(objective, slice_window, budgeting, alpha),
        **whole,
    )
    compared = slo.indicator is not None and "metric" in slo.indicator.queries
    if compared and (not slo.op or slo.value is None):
        objective.warn("a threshold metric is compared by op with value: one of them is missing")
    return slo


def _slice_window(objective: Value, found: Window | None, budgeting: Budgeting, alpha: bool) -> Window | None:
    if found is not None or budgeting is Budgeting.OCCURRENCES:
        return found
    if alpha:
        objective.warn("v1alpha does not say how long a time slice is: taken as 1m")
        return Window(1, "m")
    if "timeSliceWindow" not in objective:
        objective.fault(f"{budgeting} needs a timeSliceWindow")
    return None


def _read_target(objective: Value) -> Fraction:
    given = [key for key in _OBJECTIVE_KEYS if key in objective]
    if len(given) != 1:
        objective.fault("needs a target" if not given else "has both target and targetPercent")
        for key in given:
            objective.number(key)
        return Fraction(0)
    value = objective.number(given[0])
    if value is None:
        return Fraction(0)
    target = value / 100 if given[0] == "targetPercent" else value
    place = objective.get(given[0])
    if place is not None and not 0 <= target < 1:
        hint = f"did you mean {float(target / 100):g}?" if 1 < target < 100 else ""
        place.fault("must be at least 0 and below 1: a target of 100 % leaves no budget", hint)
    return target


def _read_v1_indicator(spec: Value, slo: Meta) -> Indicator | None:
    section = spec.mapping("indicator")
    if section is None:
        return None
    meta = read_meta(section, slo.name)
    sli = section.mapping("spec", required=True)
    return None if sli is None else read_sli(sli, meta)


def read_sli(sli: Value, meta: Meta) -> Indicator | None:
    """The spec of an SLI of v1."""
    description = read_description(sli)
    threshold, ratio = sli.mapping("thresholdMetric"), sli.mapping("ratioMetric")
    if (threshold is None) is (ratio is None):
        sli.fault("needs either a thresholdMetric or a ratioMetric")
        for each in (threshold, ratio):
            if each is not None:
                each.plain()
        return None
    if threshold is not None:
        query = _read_metric(threshold)
        return None if query is None else indicator(meta, {"metric": query}, None, description)
    return None if ratio is None else _read_ratio(ratio, meta, description)


def _read_ratio(ratio: Value, meta: Meta, description: str) -> Indicator | None:
    counter = ratio.flag("counter")
    queries: dict[str, Query] = {}
    for role in ("good", "bad", "total", "raw"):
        section = ratio.mapping(role)
        query = None if section is None else _read_metric(section)
        if query is not None:
            queries[role] = query
    if "raw" in queries:
        raw_type = ratio.choice("rawType", ("success", "failure"), required=True)
        queries = {raw_type or "success": queries["raw"], **{k: v for k, v in queries.items() if k != "raw"}}
    if not (queries.keys() in ({"success"}, {"failure"}) or queries.keys() in ({"good", "total"}, {"bad", "total"})):
        ratio.fault("needs good and total, bad and total, or raw")
        return None
    return indicator(meta, queries, counter, description)


def _read_metric(section: Value) -> Query | None:
    source = section.mapping("metricSource", required=True)
    if source is None:
        return None
    spec = source.mapping("spec", required=True)
    if spec is None:
        return None
    if not spec.keys:
        spec.fault("is empty")
        return None
    return Query(spec.plain(), source.text("type"), read_ref(source, "metricSourceRef"))


def _read_alpha_indicator(spec: Value, meta: Meta) -> Indicator | None:
    section = spec.mapping("indicator")
    metric = None if section is None else section.mapping("thresholdMetric", required=True)
    query = None if metric is None else _read_alpha_query(metric)
    return None if query is None else indicator(Meta(meta.name), {"metric": query})


def _read_alpha_ratio(objective: Value, meta: Meta) -> Indicator | None:
    ratio = objective.mapping("ratioMetrics")
    if ratio is None:
        return None
    counter = ratio.flag("incremental")
    queries = {}
    for role in ("good", "bad", "total"):
        section = ratio.mapping(role, required=role == "total" or (role == "good" and "bad" not in ratio))
        query = None if section is None else _read_alpha_query(section)
        if query is not None:
            queries[role] = query
    if queries.keys() not in ({"good", "total"}, {"bad", "total"}):
        ratio.fault("needs good and total, or bad and total")
        return None
    return indicator(Meta(meta.name), queries, counter)


def _read_alpha_query(section: Value) -> Query | None:
    source = section.text("source", required=True)
    spec = {key: section.text(key, required=True) for key in ("queryType", "query")}
    if metadata := section.mapping("metadata"):
        spec["metadata"] = metadata.plain()
    return Query(spec, source) if source else None


def _read_service(spec: Value, meta: Meta) -> dict[str, Any]:
    description = read_description(spec)
    return {"description": description} if description else {}


def _read_sli_object(spec: Value, meta: Meta) -> dict[str, Any]:
    found = read_sli(spec, meta)
    return indicator_form(found) if found is not None else {}


def _read_data_source(spec: Value, meta: Meta) -> dict[str, Any]:
    description = read_description(spec)
    details = spec.need("connectionDetails")
    read = {"type": spec.text("type", required=True), "connectionDetails": details.plain() if details else None}
    return read | ({"description": description} if description else {})


_OTHERS: Final[dict[str, Callable[[Value, Meta], dict[str, Any]]]] = {
    "Service": _read_service,
    "SLI": _read_sli_object,
    "DataSource": _read_data_source,
    "AlertPolicy": lambda spec, _: read_policy(spec),
    "AlertCondition": lambda spec, _: read_condition(spec),
    "AlertNotificationTarget": lambda spec, _: read_target(spec),
}
