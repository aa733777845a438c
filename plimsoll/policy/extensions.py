"""Rules and plugins that other packages add by entry points: which there are, and the one of a name.

A package says in its metadata, under one of these groups, a name and a callable that makes the rule, without arguments;
what makes a plugin is given its settings:

    [project.entry-points."plimsoll.orders"]
    slack = "our_package:Slack"

What a rule must be able to do is in `governor/rules.py`, what a plugin must in `gateway/plugin.py`.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from plimsoll.errors import UsageError

GROUPS: Final = {
    "order": "plimsoll.orders",
    "routing": "plimsoll.routings",
    "admission": "plimsoll.admissions",
    "plugin": "plimsoll.plugins",
}
METHODS: Final = {"order": "cost", "routing": "cost", "admission": "refuse", "plugin": "check"}
"""By kind of rule (the key under `scheduling`), or for plugins: the group of entry points, the method to be had."""


def known(kind: str) -> list[str]:
    """The names that installed packages add for that kind, sorted."""
    return sorted({point.name for point in entry_points(group=GROUPS[kind])})


def load(kind: str, name: str, *given: Any) -> Any:
    """A new rule of that kind and name, made of what is given. Raises UsageError, saying why it cannot be had."""
    points = list(entry_points(group=GROUPS[kind], name=name))
    if not points:
        others = ", ".join(known(kind)) or "none"
        raise UsageError(
            f"no installed package adds the {kind} {name!r} (entry points in group {GROUPS[kind]}: {others})"
        )
    if len({point.value for point in points}) > 1:
        raise UsageError(f"several packages add the {kind} {name!r}: {', '.join(_origin(point) for point in points)}")
    return _made(kind, points[0], given)


def _made(kind: str, point: EntryPoint, given: tuple[Any, ...]) -> Any:
    try:
        make: Callable[..., Any] = point.load()
        rule = make(*given)
    except Exception as error:  # whatever a package may do when it is imported or called
        raise UsageError(
            f"the {kind} {point.name!r} of {_origin(point)} cannot be used: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(rule, METHODS[kind], None)):
        raise UsageError(f"the {kind} {point.name!r} of {_origin(point)} has no method {METHODS[kind]}")
    return rule


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "an unnamed package"
    return f"{package} ({point.value})"
