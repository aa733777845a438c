"""The cells of a sweep: documents with some of their values replaced, found by path and by name."""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from msgspec import Struct
from ruamel.yaml.error import YAMLError

from plimsoll.errors import UsageError
from plimsoll.policy.yamlreader import reader, wrong_with
from plimsoll.policy.yamltext import compact

WORKLOAD: Final = "workload."
"""Paths that begin so are looked for in the workload file, others in the policy."""
RULES: Final = "rules"
MADE: Final = frozenset({"overrides", "scheduling", "budget", "limits"})
"""Keys of the policy below which a path may name what is not there yet: what they hold has defaults."""
_COMMA: Final = re.compile(r",(?![^{\[]*[}\]])")  # not one inside of braces or brackets


class Axis(Struct, frozen=True):
    """One value that is varied."""

    path: str
    values: tuple[str, ...]


class Cell(Struct, frozen=True):
    """One point of the grid: the documents to simulate."""

    values: tuple[tuple[str, str], ...]  # (path, value)
    policy_text: str
    workload_text: str
    rules: str


def axis_of(text: str) -> Axis:
    """`tiers.gold.share=30%,50%` as an axis."""
    path, equals, values = text.partition("=")
    found = tuple(value.strip() for value in _COMMA.split(values))
    if not path.strip() or not equals or not all(found):
        raise UsageError(f"--set {text}: write a path and its values, such as tiers.gold.share=30%,50%")
    if len(set(found)) < len(found):
        raise UsageError(f"--set {text}: a value is there twice")
    return Axis(path.strip(), found)


def cells(axes: Sequence[Axis], policy: str, workload: str, rules: str) -> Iterator[Cell]:
    """All combinations, the last axis moving fastest. Raises UsageError where a path leads nowhere."""
    repeated = [axis.path for place, axis in enumerate(axes) if axis.path in {each.path for each in axes[:place]}]
    if repeated:
        raise UsageError(f"--set {repeated[0]} is given twice")
    for values in product(*[axis.values for axis in axes]):
        documents = {"policy": policy, "workload": workload, RULES: rules}
        for axis, value in zip(axes, values, strict=True):
            if axis.path == RULES:
                documents[RULES] = value
            elif axis.path.startswith(WORKLOAD):
                path = axis.path.removeprefix(WORKLOAD)
                documents["workload"] = replaced(documents["workload"], path, value, axis.path)
            else:
                documents["policy"] = replaced(documents["policy"], axis.path, value, axis.path)
        named = tuple((axis.path, value) for axis, value in zip(axes, values, strict=True))
        yield Cell(named, documents["policy"], documents["workload"], documents[RULES])


def replaced(text: str, path: str, value: str, told: str) -> str:
    """A YAML text with one value replaced (or added, where only the last part of the path is new).

    A part of the path is a key, or in a list the `name` (for objectives the `sli`) or the place of an item. A bare
    number for `replicas` stands for so many of them; `overrides` of a pool and what is below them are made.
    """
    try:
        document = reader().load(text)
        given = reader().load(value)
    except YAMLError as error:
        raise UsageError(f"--set {told}: {wrong_with(error)[1]}") from error
    parts = path.split(".")
    place = document
    for depth, part in enumerate(parts[:-1]):
        if MADE.intersection(parts[: depth + 1]) and isinstance(place, dict):
            place.setdefault(part, {})
        place = _inside(place, part, ".".join(parts[: depth + 1]), told)
    _put(place, parts[-1], _replicas(given) if parts[-1] == "replicas" and isinstance(given, int) else given, told)
    return compact(document)


def _replicas(num: int) -> list[str]:
    return [f"http://replica-{number}" for number in range(1, num + 1)]


def _put(place: Any, part: str, value: object, told: str) -> None:
    if isinstance(place, dict):
        place[part] = value
    elif isinstance(place, list):
        place[_index(place, part, told)] = value
    else:
        raise UsageError(f"--set {told}: {part} is no part of {place!r}")


def _inside(place: Any, part: str, path: str, told: str) -> Any:
    if isinstance(place, dict):
        if part not in place:
            raise UsageError(f"--set {told}: there is no {path}; there are {', '.join(map(str, place))}")
        return place[part]
    if isinstance(place, list):
        return place[_index(place, part, told)]
    raise UsageError(f"--set {told}: {path} leads into {place!r}, which has no parts")


def _index(items: list[Any], part: str, told: str) -> int:
    names = [str(item.get("name", item.get("sli", ""))) if isinstance(item, dict) else str(item) for item in items]
    if part in names:
        return names.index(part)
    if part.isdecimal() and int(part) < len(items):
        return int(part)
    raise UsageError(f"--set {told}: no item is named {part!r}; there are {', '.join(names)}")
