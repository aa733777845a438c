"""Writes the neutral form as OpenSLO v1 objects; what OpenSLO cannot say is told, never bent."""

from typing import Any, Final

from plimsoll.policy.slospec import (
    Definition,
    Imported,
    Indicator,
    Kind,
    Loss,
    Meta,
    Query,
    Slo,
    Window,
    indicator,
    number,
)

API_VERSION: Final = "openslo/v1"


def to_openslo(imported: Imported) -> tuple[list[dict[str, Any]], list[Loss]]:
    """All objects, definitions first, and what could not be written."""
    objects = [_object(each.kind, each.meta, dict(each.spec)) for each in imported.definitions]
    losses = []
    for slo in imported.slos:
        if slo.indicator is not None and slo.indicator.kind is Kind.GOOD_BAD:
            reason = "OpenSLO counts good or bad events of a total, and this SLO tells no total"
            losses.append(Loss("(export)", slo.meta.name, 0, reason))
            continue
        objects.append(slo_form(slo))
    return objects, losses


def slo_form(slo: Slo) -> dict[str, Any]:
    """One SLO with its one objective."""
    spec: dict[str, Any] = _given(description=slo.description) | {"service": slo.service}
    if slo.indicator is not None:
        spec["indicator"] = {"metadata": meta_form(slo.indicator.meta), "spec": indicator_form(slo.indicator)}
    else:
        spec["indicatorRef"] = slo.indicator_ref
    if slo.window is not None:
        spec["timeWindow"] = [_window_form(slo.window)]
    spec |= {"budgetingMethod": slo.budgeting.value, "objectives": [_objective_form(slo)]}
    if slo.alerts:
        spec["alertPolicies"] = [
            {"alertPolicyRef": each} if isinstance(each, str) else inline_form(each) for each in slo.alerts
        ]
    return _object("SLO", slo.meta, spec)


def meta_form(meta: Meta) -> dict[str, Any]:
    """`metadata`; a label with one value is written as a text."""
    labels = {key: texts[0] if len(texts) == 1 else list(texts) for key, texts in meta.labels.items()}
    return {"name": meta.name} | _given(
        displayName=meta.display_name, labels=labels, annotations=dict(meta.annotations)
    )


def indicator_form(indicator: Indicator) -> dict[str, Any]:
    """The spec of an SLI."""
    spec: dict[str, Any] = _given(description=indicator.description)
    queries = {role: {"metricSource": _source_form(query)} for role, query in indicator.queries.items()}
    if "metric" in queries:
        return spec | {"thresholdMetric": queries["metric"]}
    ratio: dict[str, Any] = {} if indicator.counter is None else {"counter": indicator.counter}
    for role, query in queries.items():
        ratio |= {"rawType": role, "raw": query} if role in {"success", "failure"} else {role: query}
    return spec | {"ratioMetric": ratio}


def indicator_of(definition: Definition) -> Indicator:
    """The indicator of an SLI as `indicator_form` wrote its spec."""
    spec = definition.spec
    description = spec.get("description", "")
    if "thresholdMetric" in spec:
        return indicator(definition.meta, {"metric": _query_of(spec["thresholdMetric"])}, None, description)
    ratio = spec["ratioMetric"]
    queries = {role: _query_of(ratio[role]) for role in ("good", "bad", "total") if role in ratio}
    if "raw" in ratio:
        queries[ratio["rawType"]] = _query_of(ratio["raw"])
    return indicator(definition.meta, queries, ratio.get("counter"), description)


def inline_form(definition: Definition) -> dict[str, Any]:
    """A definition where it is used, without an apiVersion."""
    return {"kind": definition.kind, "metadata": meta_form(definition.meta), "spec": dict(definition.spec)}


def _object(kind: str, meta: Meta, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta_form(meta), "spec": spec}


def _source_form(query: Query) -> dict[str, Any]:
    return _given(metricSourceRef=query.ref, type=query.type) | {"spec": dict(query.spec)}


def _query_of(form: dict[str, Any]) -> Query:
    source = form["metricSource"]
    return Query(source["spec"], source.get("type", ""), source.get("metricSourceRef", ""))


def _objective_form(slo: Slo) -> dict[str, Any]:
    form: dict[str, Any] = _given(displayName=slo.objective, op=slo.op)
    if slo.value is not None:
        form["value"] = number(slo.value)
    form["target"] = number(slo.target)
    if slo.slice_target is not None:
        form["timeSliceTarget"] = number(slo.slice_target)
    if slo.slice_window is not None:
        form["timeSliceWindow"] = str(slo.slice_window)
    return form


def _window_form(window: Window) -> dict[str, Any]:
    form: dict[str, Any] = {"duration": str(window), "isRolling": window.rolling}
    if not window.rolling:
        form["calendar"] = {"startTime": window.start, "timeZone": window.timezone}
    return form


def _given(**values: Any) -> dict[str, Any]:
    """Those that say something."""
    return {key: value for key, value in values.items() if value}
