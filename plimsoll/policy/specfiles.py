"""Reads SLO files of other tools, whatever their format, into one `Imported`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from plimsoll.errors import Fault
from plimsoll.policy.account import Account
from plimsoll.policy.foreign import Value, close, documents
from plimsoll.policy.openslo import VERSIONS, read_openslo
from plimsoll.policy.openslo_form import indicator_of
from plimsoll.policy.pyrra import read_pyrra
from plimsoll.policy.slogenerator import read_v1, read_v2
from plimsoll.policy.slospec import Definition, Imported, Slo
from plimsoll.policy.sloth import read_native, read_resource

_Read = Callable[[Value], "list[Slo] | list[Slo | Definition]"]
_VERSIONS: Final[dict[str, tuple[str, _Read]]] = {
    **{version: (name, read_openslo) for version, name in VERSIONS.items()},
    "prometheus/v1": ("Sloth", read_native),
}
_RESOURCES: Final[dict[tuple[str, str], tuple[str, _Read]]] = {
    ("sloth.slok.dev/v1", "PrometheusServiceLevel"): ("Sloth resource", read_resource),
    ("pyrra.dev/v1alpha1", "ServiceLevelObjective"): ("Pyrra", read_pyrra),
    ("sre.google.com/v2", "ServiceLevelObjective"): ("slo-generator v2", read_v2),
}
_NOT_READ: Final = {
    "n9/v1alpha": "Nobl9's own format, which is none of those read here",
    "openslo.com/v2alpha": "OpenSLO v2alpha is a draft; v1 and v1alpha are read",
    "sloth.slok.dev/v1": "no SLO: Plimsoll derives burn windows for each objective by itself",
    "apiextensions.k8s.io/v1": "a schema of Kubernetes, no SLO",
    "monitoring.coreos.com/v1": "rules made from SLOs, not the SLOs",
}
_OTHERS: Final = (
    ({"error_budget_minutes"}, "slo-generator report", "a result of slo-generator, no SLO"),
    ({"service_name", "slo_name", "backend"}, "slo-generator v1", None),
    ({"backends"}, "slo-generator settings", "settings of slo-generator, no SLO"),
    ({"exporters"}, "slo-generator settings", "settings of slo-generator, no SLO"),
    ({"error_budget_policies"}, "slo-generator settings", "settings of slo-generator, no SLO"),
    ({"class", "project_id"}, "slo-generator settings", "an exporter of slo-generator, no SLO"),
    ({"$schema"}, "JSON schema", "a schema, no SLO"),
    ({"groups"}, "Prometheus rules", "rules made from SLOs, not the SLOs"),
    ({"alerts", "recordingrule"}, "Prometheus rules", "rules made from SLOs, not the SLOs"),
    ({"alerts", "grafana"}, "Prometheus rules", "rules made from SLOs, not the SLOs"),
    ({"prometheusRule"}, "Prometheus rules", "rules made from SLOs, not the SLOs"),
)
"""Documents without a version, by keys that they have: what they are, and why they are not read."""
_KNOWN: Final = "openslo/v1, openslo/v1alpha, prometheus/v1, sloth.slok.dev/v1, pyrra.dev/v1alpha1, sre.google.com/v2"


def read_files(files: Iterable[tuple[str, str]]) -> Imported:
    """All SLOs of (name, text) pairs, references between them followed."""
    return resolve([read_text(text, source) for source, text in files])


def read_text(text: str, source: str) -> Imported:
    """One file by itself; references are left as they are."""
    account = Account(source)
    return read_documents(documents(text, account), account)


def read_documents(found: Iterable[Value], account: Account) -> Imported:
    """The documents of one file, whose account it is."""
    objects: list[Slo | Definition] = []
    formats: dict[str, None] = {}
    for document in found:
        if not document.is_mapping:
            document.fault("must be a section of keys")
            continue
        format_name, more = _read(document)
        formats[format_name] = None
        objects += more
    return Imported(
        tuple([each for each in objects if isinstance(each, Slo)]),
        tuple([each for each in objects if isinstance(each, Definition)]),
        tuple(account.losses),
        tuple([(account.source, fault) for fault in account.faults]),
        tuple([(account.source, fault) for fault in account.warnings]),
        {account.source: ", ".join(formats) or "empty"},
    )


def _read(document: Value) -> "tuple[str, list[Slo | Definition]]":
    """The format's name and what the document holds; nothing of it where it has faults."""
    account = document.account
    format_name, read = _format_of(document)
    if read is None:
        return format_name, []
    before = len(account.faults)
    found: list[Slo | Definition] = [*read(document)]
    close(document, format_name, strict=format_name.startswith("OpenSLO"))
    return format_name, found if len(account.faults) == before else []


def _format_of(document: Value) -> tuple[str, _Read | None]:
    version, kind = document.peek("apiVersion") or document.peek("version"), document.peek("kind")
    known = _VERSIONS.get(version) or _RESOURCES.get((version, kind))
    if known is not None:
        return known
    if version in _NOT_READ:
        document.lose(_NOT_READ[version])
        return version, None
    for keys, format_name, reason in () if version else _OTHERS:
        if keys <= set(document.keys):
            if reason is None:
                return format_name, read_v1
            document.lose(reason)
            return format_name, None
    place = document.get("apiVersion") or document.get("version") or document
    place.fault(f"{version[:60]!r} is no format read here" if version else "no SLO format", f"known: {_KNOWN}")
    document.plain()
    return "unknown", None


def resolve(read: list[Imported]) -> Imported:
    """All together: indicators by their references, names given twice told."""
    definitions = tuple([definition for each in read for definition in each.definitions])
    indicators = {each.meta.name: indicator_of(each) for each in definitions if each.kind == "SLI"}
    policies = {each.meta.name for each in definitions if each.kind == "AlertPolicy"}
    faults = [fault for each in read for fault in each.faults]
    warnings = [warning for each in read for warning in each.warnings] + list(_given_twice(read))
    seen: dict[tuple[str, str], str] = {}
    slos = []
    for each in read:
        (source,) = each.sources or [""]
        for slo in each.slos:
            key = (slo.service, slo.meta.name)
            if key in seen:
                message = f"SLO {slo.meta.name!r} of service {slo.service!r} is given twice, first in {seen[key]}"
                faults.append((source, Fault("(document)", message)))
                continue
            seen[key] = source
            if slo.indicator is None and (known := indicators.get(slo.indicator_ref)) is not None:
                slo = replace(slo, indicator=known, indicator_ref="")  # noqa: PLW2901 - the same SLO, complete
            elif slo.indicator is None:
                warnings.append((source, _unresolved(slo.meta.name, "SLI", slo.indicator_ref)))
            warnings += [
                (source, _unresolved(slo.meta.name, "AlertPolicy", ref))
                for ref in slo.alerts
                if isinstance(ref, str) and ref not in policies
            ]
            slos.append(slo)
    sources = {source: formats for each in read for source, formats in each.sources.items()}
    losses = tuple([loss for each in read for loss in each.losses])
    return Imported(tuple(slos), definitions, losses, tuple(faults), tuple(warnings), sources)


def _unresolved(name: str, kind: str, ref: str) -> Fault:
    return Fault("(document)", f"SLO {name!r} refers to {kind} {ref!r}, which is not among the files", warning=True)


def _given_twice(read: list[Imported]) -> Iterator[tuple[str, Fault]]:
    seen: dict[tuple[str, str], str] = {}
    for each in read:
        (source,) = each.sources or [""]
        for definition in each.definitions:
            key = (definition.kind, definition.meta.name)
            if key in seen:
                message = f"{key[0]} {key[1]!r} is given twice, first in {seen[key]}: both are kept"
                yield source, Fault("(document)", message, warning=True)
            seen.setdefault(key, source)
