"""Reads Sloth's SLOs: `version: prometheus/v1` files and the Kubernetes resource PrometheusServiceLevel.

Both say the same in two spellings (error_query, errorQuery). Sloth's window is a setting of its command line; here it
is that command's default, 30 days. Its page and ticket alerts are pairs of burn rates (internal/alert/windows of
Sloth: google-30d); OpenSLO has one look-back a condition, so each pair gives two alert policies.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from plimsoll.policy.foreign import Value
from plimsoll.policy.naming import NAMESPACE, named, read_annotations, read_description, read_labels
from plimsoll.policy.openslo_form import inline_form
from plimsoll.policy.slospec import Definition, Indicator, Meta, Query, Slo, Window, dns_label, indicator, number

_WINDOW: Final = Window(30, "d")
_BURNS: Final = {
    "page": (("1h", Fraction(72, 5)), ("6h", Fraction(6))),
    "ticket": (("1d", Fraction(3)), ("3d", Fraction(1))),
}
_PLUGINS: Final = "rewrites the rules that Sloth makes; Plimsoll makes its own"
_Words = Mapping[str, str]
_NATIVE: Final[_Words] = {
    "error": "error_query", "total": "total_query", "raw": "error_ratio_query", "page": "page_alert",
    "ticket": "ticket_alert", "plugins": "slo_plugins",
}  # fmt: skip
_CRD: Final[_Words] = {
    "error": "errorQuery", "total": "totalQuery", "raw": "errorRatioQuery", "page": "pageAlert",
    "ticket": "ticketAlert", "plugins": "sloPlugins",
}  # fmt: skip


def read_native(document: Value) -> list[Slo]:
    """A `version: prometheus/v1` document."""
    document.text("version")
    return _read(document, _NATIVE, {})


def read_resource(document: Value) -> list[Slo]:
    """A PrometheusServiceLevel; its own labels are for Prometheus operators and are told as lost."""
    document.text("apiVersion")
    document.text("kind")
    annotations = {}
    if (metadata := document.mapping("metadata")) is not None:
        annotations = read_annotations(metadata, "annotations")
        for key, kept in (("name", "plimsoll/resource"), ("namespace", NAMESPACE)):
            if text := metadata.text(key):
                annotations[kept] = text
        metadata.lose_key("labels", "labels of the Kubernetes resource, which choose who reads it")
    spec = document.mapping("spec", required=True)
    return [] if spec is None else _read(spec, _CRD, annotations)


def _read(spec: Value, words: _Words, annotations: dict[str, str]) -> list[Slo]:
    service = spec.text("service", required=True)
    labels, more = read_labels(spec, "labels")
    spec.lose_key(words["plugins"], _PLUGINS)
    slos = []
    for item in spec.items("slos", required=True):
        if item.is_mapping:
            slos.append(_read_slo(item, words, service, labels, annotations | more))
        else:
            item.fault("must be a section of keys")
    return slos


def _read_slo(
    item: Value, words: _Words, service: str, labels: dict[str, tuple[str, ...]], annotations: dict[str, str]
) -> Slo:
    name = item.text("name", required=True)
    own, more = read_labels(item, "labels")
    for key in labels.keys() & own.keys():
        if labels[key] != own[key]:
            item.warn(f"its label {key} replaces {labels[key][0]!r} of the whole file")
    meta = named(name, item.get("name"), "", labels | own, annotations | more)
    item.lose_key("plugins", _PLUGINS)
    return Slo(
        meta=meta,
        service=service,
        target=_read_objective(item),
        window=_WINDOW,
        description=read_description(item),
        indicator=_read_sli(item, words, meta),
        alerts=_read_alerts(item, words, meta),
    )


def _read_objective(item: Value) -> Fraction:
    percent = item.number("objective", required=True)
    place = item.get("objective")
    if percent is not None and place is not None and not 0 <= percent < 100:
        place.fault("must be a percentage below 100: a target of 100 % leaves no budget")
    return (percent or Fraction(0)) / 100


def _read_sli(item: Value, words: _Words, meta: Meta) -> Indicator | None:
    sli = item.mapping("sli", required=True)
    if sli is None:
        return None
    events, raw, plugin = sli.mapping("events"), sli.mapping("raw"), sli.mapping("plugin")
    if sum(each is not None for each in (events, raw, plugin)) != 1:
        sli.fault("needs one of events, raw and plugin")
        sli.plain()
        return None
    queries = {}
    if events is not None:
        queries = {"bad": _read_query(events, words["error"]), "total": _read_query(events, words["total"])}
    elif raw is not None:
        queries = {"failure": _read_query(raw, words["raw"])}
    elif plugin is not None:
        plugin.text("id", required=True)
        queries = {"failure": Query(plugin.plain(), "sloth-plugin")}
    return indicator(Meta(meta.name), queries)


def _read_query(section: Value, key: str) -> Query:
    return Query({"query": section.text(key, required=True)}, "Prometheus")


def _read_alerts(item: Value, words: _Words, meta: Meta) -> tuple[Definition, ...]:
    alerting = item.mapping("alerting")
    if alerting is None:
        return ()
    name = alerting.text("name")
    labels, annotations = read_labels(alerting, "labels")
    annotations |= read_annotations(alerting, "annotations")
    found: list[Definition] = []
    for severity in _BURNS:
        section = alerting.mapping(words[severity])
        if section is not None and section.flag("disable"):
            for key in ("labels", "annotations"):
                section.lose_key(key, "the alert is disabled")
            continue
        own, more = read_labels(section, "labels") if section is not None else ({}, {})
        if section is not None:
            more |= read_annotations(section, "annotations")
        found += _alerts(severity, Meta(meta.name, name, labels | own, annotations | more))
    if found and not name:
        alerting.fault("needs a name, as long as page or ticket alerts are not disabled")
    if not found:
        for key in ("labels", "annotations"):
            alerting.lose_key(key, "both alerts are disabled")
    return tuple(found)


def _alerts(severity: str, meta: Meta) -> list[Definition]:
    found = []
    for lookback, factor in _BURNS[severity]:
        own = Meta(dns_label(f"{meta.name}-{severity}-{lookback}"), meta.display_name, meta.labels, meta.annotations)
        spec: dict[str, Any] = {"severity": severity}
        spec["condition"] = {"kind": "burnrate", "op": "gt", "threshold": number(factor), "lookbackWindow": lookback}
        policy = {
            "alertWhenBreaching": True,
            "conditions": [inline_form(Definition("AlertCondition", Meta(own.name), spec))],
            "notificationTargets": [{"targetRef": severity}],
        }
        found.append(Definition("AlertPolicy", own, policy))
    return found
