"""Who sends the load: tenants with their keys and weights, from YAML or CSV.

YAML: `tenants: [{name: acme, key: sk-acme, weight: 2}, …]` or plainly `acme: sk-acme`. CSV: columns `name,key` and,
if wanted, `weight,model`. A key may be `env:NAME`, so that the file holds no secret.
"""

import csv
import os
from collections.abc import Iterator, Mapping
from io import StringIO
from math import isfinite
from pathlib import Path

from msgspec import Struct
from ruamel.yaml.error import YAMLError

from plimsoll.errors import Fault, PolicyError, UsageError
from plimsoll.policy.yamlreader import reader, wrong_with


class Sender(Struct, frozen=True):
    """A tenant as the load plays it. `weight` is its share of the rows that name no tenant."""

    name: str
    key: str
    weight: float = 1.0
    model: str = ""  # "": the replay's model


def read_senders(path: Path) -> tuple[Sender, ...]:
    """The tenants of a MAP file. Raises UsageError where there is none, PolicyError with every fault in it."""
    if not path.is_file():
        raise UsageError(f"no tenant map at {path}: give a YAML or CSV file with names and keys")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError(str(path), [Fault("", f"not UTF-8 text (byte {error.start})")]) from error
    entries = list(_from_csv(text) if path.suffix == ".csv" else _from_yaml(str(path), text))
    faults: list[Fault] = []
    senders = [_sender(place, entry, faults) for place, entry in entries]
    names = [sender.name for sender in senders]
    faults += [Fault(name, "is named twice") for name in sorted({name for name in names if names.count(name) > 1})]
    if not senders:
        faults.append(Fault("tenants", "there are none", hint="tenants: [{name: acme, key: sk-acme}]"))
    elif not faults and not any(sender.weight for sender in senders):
        faults.append(Fault("tenants", "every weight is 0"))
    if faults:
        raise PolicyError(str(path), faults)
    return tuple(senders)


def _from_csv(text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    for number, row in enumerate(csv.DictReader(StringIO(text)), 2):
        yield f"line {number}", {key: value for key, value in row.items() if value}


def _from_yaml(source: str, text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    try:
        document = reader().load(text)
    except YAMLError as error:
        line, words = wrong_with(error)
        raise PolicyError(source, [Fault("(document)", words, line)]) from error
    entries = document.get("tenants", document) if isinstance(document, dict) else document
    if isinstance(entries, dict):
        for name, key in entries.items():
            yield str(name), {"name": name, **(key if isinstance(key, dict) else {"key": key})}
    elif isinstance(entries, list):
        for position, entry in enumerate(entries):
            yield f"tenants[{position}]", entry if isinstance(entry, dict) else {"name": entry}


def _sender(place: str, entry: Mapping[str, object], faults: list[Fault]) -> Sender:
    """One tenant; what is wrong with it goes to `faults`."""
    unknown = sorted(set(map(str, entry)) - {"name", "key", "weight", "model"})
    faults += [Fault(f"{place}.{key}", "no such key", hint="name, key, weight, model") for key in unknown]
    faults += [Fault(place, f"has no {key}") for key in ("name", "key") if not entry.get(key)]
    return Sender(
        name=str(entry.get("name", "")),
        key=_key(place, str(entry.get("key", "")), faults),
        weight=_weight(place, entry.get("weight", 1), faults),
        model=str(entry.get("model", "")),
    )


def _key(place: str, text: str, faults: list[Fault]) -> str:
    if not text.startswith("env:"):
        return text
    value = os.environ.get(text.removeprefix("env:"), "")
    if not value:
        faults.append(Fault(f"{place}.key", f"{text.removeprefix('env:')} is not set in the environment"))
    return value


def _weight(place: str, value: object, faults: list[Fault]) -> float:
    try:
        weight = float(str(value))
    except ValueError:
        weight = -1.0
    if not (isfinite(weight) and weight >= 0):
        faults.append(Fault(f"{place}.weight", f"{value!r} is not a number of 0 or more"))
        return 0.0
    return weight
