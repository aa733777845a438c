"""Reads how things are called in other tools' documents: names, labels, annotations, descriptions."""

import re
from typing import Final

from plimsoll.policy.foreign import Value
from plimsoll.policy.slospec import Meta, dns_label

_LABEL_KEY: Final = re.compile(r"[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")
_ANNOTATION_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?"
    r"[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
)
ORIGINAL_NAME: Final = "plimsoll/name"
"""The annotation with a name that was no DNS label."""
NAMESPACE: Final = "plimsoll/namespace"
"""The annotation with the Kubernetes namespace."""
LONGEST_DESCRIPTION: Final = 1050
"""Characters (OpenSLO v1, general schema)."""


def read_meta(document: Value, fallback: str = "") -> Meta:
    """`metadata` of an object; a missing name is a fault unless there is a fallback."""
    section = document.mapping("metadata", required=not fallback)
    if section is None:
        return Meta(dns_label(fallback))
    name = section.text("name", required=not fallback) or fallback
    labels, annotations = read_labels(section, "labels")
    annotations |= read_annotations(section, "annotations")
    if namespace := section.text("namespace"):
        annotations[NAMESPACE] = namespace
    return named(name, section.get("name"), section.text("displayName"), labels, annotations)


def named(
    name: str, place: Value | None, display: str, labels: dict[str, tuple[str, ...]], annotations: dict[str, str]
) -> Meta:
    """Those as a Meta; a name that is no DNS label is made one, with a warning."""
    label = dns_label(name) if name else ""
    if label != name and name:
        annotations = {ORIGINAL_NAME: name} | annotations
        if place is not None:
            place.warn(f"{name[:80]!r} is no DNS label: called {label!r} here")
    return Meta(label, display, labels, annotations)


def read_labels(section: Value, key: str) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Labels, and those whose keys only an annotation can have."""
    labels: dict[str, tuple[str, ...]] = {}
    annotations: dict[str, str] = {}
    found = section.mapping(key)
    for name, value in found.each() if found is not None else ():
        texts = _texts(value)
        if texts is None:
            continue
        if _LABEL_KEY.fullmatch(name):
            labels[name] = texts
        elif _ANNOTATION_KEY.fullmatch(name) and len(texts) == 1:
            annotations[name] = texts[0]
            value.warn("no key for a label in OpenSLO: kept as an annotation")
        else:
            value.lose("no key for a label or an annotation in OpenSLO")
    return labels, annotations


def read_annotations(section: Value, key: str) -> dict[str, str]:
    """Annotations: single texts."""
    annotations: dict[str, str] = {}
    found = section.mapping(key)
    for name, value in found.each() if found is not None else ():
        if not _ANNOTATION_KEY.fullmatch(name):
            value.lose("no key for an annotation in OpenSLO")
        elif (text := value.scalar()) is not None:
            annotations[name] = text
    return annotations


def read_description(section: Value, key: str = "description") -> str:
    """At most 1,050 characters; what is longer is cut and told."""
    text = section.text(key)
    found = section.get(key)
    if len(text) > LONGEST_DESCRIPTION and found is not None:
        found.account.lose(found.path, found.line, f"cut to the {LONGEST_DESCRIPTION} characters that OpenSLO takes")
        return text[:LONGEST_DESCRIPTION]
    return text


def read_ref(section: Value, key: str) -> str:
    """A reference by name, called as `read_meta` would call the thing itself."""
    name = section.text(key)
    found = section.get(key)
    return ref_of(name, found) if name and found is not None else ""


def ref_of(name: str, place: Value) -> str:
    """The same for a name at hand."""
    label = dns_label(name)
    if label != name:
        place.account.lose(place.path, place.line, f"{name[:80]!r} is no DNS label: refers to {label!r} here")
    return label


def _texts(value: Value) -> tuple[str, ...] | None:
    if value.is_list:
        texts = [text for item in value.each_item() if (text := item.scalar()) is not None]
        return tuple(texts)
    text = value.scalar()
    return None if text is None else (text,)
