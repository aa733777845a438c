"""Reads the SLO configurations of Google's slo-generator, v2 (sre.google.com/v2) and v1.

Its SLI keys belong to the backend that reads them, so they are kept as written, with the method, as what the source
is asked. Which of them ask for good, bad and all events follows from their names (filter_good, query_valid …).
"""

from fractions import Fraction
from typing import Any, Final

from plimsoll.policy.foreign import Value
from plimsoll.policy.naming import named, read_description, read_meta, ref_of
from plimsoll.policy.slospec import Indicator, Meta, Query, Slo, Window, indicator

_WINDOW: Final = Window(28, "d")
_ROLES: Final = {"good": "good", "bad": "bad", "valid": "total"}
_METHODS: Final = (
    "good_bad_ratio", "distribution_cut", "query_sli", "query_slo", "query", "threshold", "basic", "windows", "sli",
    "exponential_distribution_cut",
)  # fmt: skip
_EXPORTERS: Final = "says where slo-generator writes its results"


def read_v2(document: Value) -> list[Slo]:
    """A ServiceLevelObjective of sre.google.com/v2."""
    document.text("apiVersion")
    document.text("version")
    document.choice("kind", ("ServiceLevelObjective",), required=True)
    meta = read_meta(document)
    spec = document.mapping("spec", required=True)
    if spec is None:
        return []
    spec.lose_key("exporters", _EXPORTERS)
    labels = {key: texts[0] for key, texts in meta.labels.items() if texts}
    service = "-".join(labels[key] for key in ("service_name", "feature_name") if key in labels)
    found = _read_sli(spec, "backend", "service_level_indicator", meta)
    return [_slo(meta, service or meta.name, spec, _read_goal(spec, "goal"), found)]


def read_v1(document: Value) -> list[Slo]:
    """The flat form before v2: service_name, feature_name, slo_name, slo_target, backend."""
    parts = {key: document.text(key, required=True) for key in ("service_name", "feature_name", "slo_name")}
    labels: dict[str, tuple[str, ...]] = {key: (text,) for key, text in parts.items()}
    if (metadata := document.mapping("metadata")) is not None:
        metadata.lose("labels of the report, not of the SLO")
    meta = named("-".join(parts.values()), None, "", labels, {})
    document.lose_key("exporters", _EXPORTERS)
    backend = document.mapping("backend", required=True)
    found: tuple[tuple[str, Fraction] | None, Indicator | None] = (None, None)
    if backend is not None:
        backend.lose_key("project_id", "where the backend is; connections are no part of an SLO")
        found = _read_sli(backend, "class", "measurement", meta)
    service = f"{parts['service_name']}-{parts['feature_name']}"
    return [_slo(meta, service, document, _read_goal(document, "slo_target"), found)]


def _slo(
    meta: Meta, service: str, spec: Value, goal: Fraction, found: tuple[tuple[str, Fraction] | None, Indicator | None]
) -> Slo:
    value, measured = found
    alerts: list[str] = []
    policy = spec.text("error_budget_policy")
    if policy and (place := spec.get("error_budget_policy")) is not None:
        alerts.append(ref_of(policy, place))
    return Slo(
        meta=meta,
        service=service,
        target=goal,
        window=_WINDOW,
        description=read_description(spec, "slo_description" if "slo_description" in spec else "description"),
        indicator=measured,
        op=value[0] if value else "",
        value=value[1] if value else None,
        alerts=tuple(alerts),
    )


def _read_goal(spec: Value, key: str) -> Fraction:
    goal = spec.number(key, required=True)
    place = spec.get(key)
    if goal is not None and place is not None and not 0 <= goal < 1:
        hint = f"did you mean {float(goal / 100):g}?" if 1 < goal < 100 else ""
        place.fault("must be at least 0 and below 1: a target of 100 % leaves no budget", hint)
    return goal or Fraction(0)


def _read_sli(
    spec: Value, backend_key: str, key: str, meta: Meta
) -> tuple[tuple[str, Fraction] | None, Indicator | None]:
    """How the value is compared, where one is, and what is measured."""
    method, backend = spec.text("method", required=True), spec.text(backend_key, required=True)
    if method and method not in _METHODS and (place := spec.get("method")) is not None:
        place.fault(f"{method[:40]!r} is no method of slo-generator", f"one of {', '.join(_METHODS)}")
    section = spec.mapping(key, required=True)
    if section is None:
        return None, None
    section.plain()
    asked: dict[str, Any] = {"method": method} | section.plain()
    if method == "good_bad_ratio":
        return None, indicator(Meta(meta.name), _split(asked, backend))
    value = _read_cut(section)
    role = "metric" if value is not None else "success"
    return value, indicator(Meta(meta.name), {role: Query(asked, backend)})


def _split(asked: dict[str, Any], backend: str) -> dict[str, Query]:
    """By role; keys that name no role are asked of each."""
    roles = {key: _ROLES[last] for key in asked if (last := key.rpartition("_")[2]) in _ROLES}
    common = {key: value for key, value in asked.items() if key not in roles}
    queries = {role: Query(common | {key: asked[key]}, backend) for key, role in roles.items()}
    if queries.keys() in ({"good", "total"}, {"bad", "total"}, {"good", "bad"}):
        return queries
    return {"success": Query(asked, backend)}  # a backend of one's own counts as it likes


def _read_cut(section: Value) -> tuple[str, Fraction] | None:
    """How a value is compared; thresholds are in the backend's own unit (often ms, s, or a bucket's index)."""
    latency = section.mapping("latency")
    place = latency if latency is not None else section
    for key in ("threshold", "threshold_bucket", "range_max"):
        if key in place and (threshold := place.number(key)) is not None:
            below = section.flag("good_below_threshold")
            return ("gte" if below is False else "lte"), threshold
    return None
