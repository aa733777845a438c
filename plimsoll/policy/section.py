"""Reading one of our YAML files: a document is walked section by section, and every fault is kept with its place.

A `Section` is one mapping. Its reader asks for each key it knows; whatever nobody asked for is an unknown key, told
with the nearest known one. A faulty value is noted and its default returned, so that reading goes on to the end.
"""

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, TypeVar

from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from plimsoll import units
from plimsoll.errors import Fault, UnitError
from plimsoll.policy.yamlreader import plain, reader, wrong_with

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_TAG: Final = "tag:yaml.org,2002:"
_INDEX: Final = re.compile(r"\[\d+\]")
_FLAGS: Final = {"true": True, "false": False}


class Faults:
    """Everything found wrong (and, apart, everything doubtful) in one document."""

    def __init__(self) -> None:
        self.all: list[Fault] = []
        self.asked: dict[str, None] = {}
        """Every key that a reader looked for, with `[]` for the items of a list."""

    def add(self, path: str, line: int, message: str, hint: str = "", *, warning: bool = False) -> None:
        """Note one; `line` counts from 1, 0 where there is none."""
        self.all.append(Fault(path, message, line, hint, warning))

    def warn(self, path: str, line: int, message: str, hint: str = "") -> None:
        """Note a doubtful value that can be used as it stands."""
        self.add(path, line, message, hint, warning=True)


def compose(text: str, faults: Faults) -> "Section | None":
    """The top section of a YAML text; None (with a fault) where it is no YAML or no mapping."""
    try:
        node = reader().compose(text)
    except YAMLError as error:
        faults.add("(document)", *wrong_with(error))
        return None
    except RecursionError:
        faults.add("(document)", 0, "nested too deeply to be meant")
        return None
    if not isinstance(node, MappingNode):
        faults.add("(document)", 1, "empty" if node is None else "must be a mapping of keys", "see docs/policy.md")
        return None
    return Section(node, "", faults)


class Section:
    """One mapping of the document, with its path and line."""

    def __init__(self, node: Any, path: str, faults: Faults) -> None:
        self.path = path
        self.line: int = node.start_mark.line + 1
        self.faults = faults
        self._values: dict[str, Any] = {}
        self._known: dict[str, None] = {}  # in the order they were asked for
        self._lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            self._take(key_node, value_node)

    def _take(self, key_node: Any, value_node: Any) -> None:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, ScalarNode) else "(a key that is no text)"
        if key in self._values:
            self.faults.add(self.at(key), line, f"given twice, first in line {self._lines[key]}")
            return
        self._values[key], self._lines[key] = value_node, line

    def at(self, key: str) -> str:
        """The path of a key of this section."""
        return f"{self.path}.{key}" if self.path else key

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def line_of(self, key: str) -> int:
        """The line where the key stands; the section's own where it does not."""
        return self._lines.get(key, self.line)

    def has(self, key: str) -> bool:
        """Whether the document gives that key."""
        return key in self._values

    def fault(self, key: str, message: str, hint: str = "") -> None:
        """Note something wrong with the value of a key."""
        self.faults.add(self.at(key), self.line_of(key), message, hint)

    def warn(self, key: str, message: str, hint: str = "") -> None:
        """Note something doubtful about the value of a key."""
        self.faults.warn(self.at(key), self.line_of(key), message, hint)

    def done(self) -> None:
        """All known keys were asked for: the rest are faults."""
        for key, line in self._lines.items():
            if key not in self._known:
                near = get_close_matches(key, list(self._known), n=1, cutoff=0.5)
                hint = f"nearest known key: {near[0]}" if near else f"known keys: {', '.join(self._known)}"
                self.faults.add(self.at(key), line, "unknown key", hint)

    def required(self, key: str) -> bool:
        """Whether the key is there; its absence is a fault."""
        if self._node(key) is None:
            self.faults.add(self.at(key), self.line, "missing")
            return False
        return True

    def _node(self, key: str) -> Any:
        self._known[key] = None
        self.faults.asked[_INDEX.sub("[]", self.at(key))] = None
        return self._values.get(key)

    def _scalar(self, key: str) -> str | None:
        """The text of a plain value as written; None (with a fault where it is something else) where there is none."""
        node = self._node(key)
        if node is None:
            return None
        if not isinstance(node, ScalarNode):
            self.fault(key, "must be one value, not a list or a section")
            return None
        if node.tag == _TAG + "null":
            self.fault(key, "has no value", "give one, or remove the key for its default")
            return None
        return str(node.value)

    def _parsed(self, key: str, parse: Callable[[str], T]) -> T | None:
        text = self._scalar(key)
        if text is None:
            return None
        try:
            return parse(text)
        except UnitError as error:
            self.fault(key, str(error))
            return None

    def text(self, key: str, default: str = "") -> str:
        """A text; numbers and truth values must be quoted to be one."""
        text = self._scalar(key)
        if text is None:
            return default
        if self._values[key].tag != _TAG + "str":
            self.fault(key, f"must be a text, not {text}", f'quote it: "{text}"')
            return default
        if not text.strip():
            self.fault(key, "is empty")
            return default
        return text

    def instant(self, key: str) -> str | None:
        """The text of a date or time, which YAML has a type of its own for."""
        text = self._scalar(key)
        if text is not None and self._values[key].tag not in {_TAG + "str", _TAG + "timestamp"}:
            self.fault(key, f"{text} is no time", "2026-11-30T02:00")
            return None
        return text

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        text = self._scalar(key)
        if text is None:
            return default
        if self._values[key].tag != _TAG + "bool" or text.lower() not in _FLAGS:
            self.fault(key, f"must be true or false, not {text!r}")
            return default
        return _FLAGS[text.lower()]

    def choice(self, key: str, kind: type[E], default: T) -> E | T:
        """One of a closed set of words."""
        text = self._scalar(key)
        if text is None:
            return default
        words = [member.value for member in kind]
        if text not in words:
            near = get_close_matches(text, words, n=1)
            self.fault(key, f"{text!r} is none of {', '.join(words)}", f"nearest: {near[0]}" if near else "")
            return default
        return kind(text)

    def duration(self, key: str, default: T, *, zero: bool = False) -> float | T:
        """Seconds > 0 (or >= 0)."""
        seconds = self._parsed(key, units.parse_duration)
        if seconds is None:
            return default
        if seconds < 0 or (seconds == 0 and not zero):
            self.fault(key, f"must be {'at least' if zero else 'above'} 0s")
            return default
        return seconds

    def whole(
        self, key: str, default: T, *, least: int = 1, most: int | None = None,
        parse: Callable[[str], int] = units.parse_count,
    ) -> int | T:  # fmt: skip
        """A whole number within its bounds, both included."""
        number = self._parsed(key, parse)
        if number is None:
            return default
        if number < least or (most is not None and number > most):
            self.fault(key, f"must be at least {least}" if most is None else f"must be from {least} to {most}")
            return default
        return number

    def ratio(
        self,
        key: str,
        default: T,
        *,
        above: Fraction | None = None,
        least: int = 0,
        most: int | Fraction = 1,
        below_one: bool = False,
    ) -> Fraction | T:
        """An exact ratio in [least, most], above `above` and below 1 where asked; slips of percentages are told."""
        text = self._scalar(key)
        if text is None:
            return default
        try:
            ratio = units.parse_ratio(text)
        except UnitError as error:
            self.fault(key, str(error))
            return default
        percent = text.strip().endswith("%")
        if ratio > most or (below_one and ratio >= 1):
            hint = f"did you mean {text.strip()}%?" if not percent and 1 < ratio <= 100 else ""
            self.fault(key, f"must be below 100%, is {text}" if below_one else f"must be at most {most * 100}%", hint)
            return default
        if ratio < least or (above is not None and ratio <= above):
            self.fault(key, f"must be {'above' if above is not None else 'at least'} {float(above or least):.3g}")
            return default
        if percent and 0 < ratio < Fraction(1, 100):
            bare = text.strip().rstrip("%").strip()
            self.warn(key, f"{text} is less than one in a hundred", f"did you mean {bare} without the % sign?")
        return ratio

    def items(self, key: str) -> tuple[tuple[str, int], ...] | None:
        """A list of plain values as written, each with its line; None (with a fault where it is no list) without it."""
        node = self._node(key)
        if not isinstance(node, SequenceNode) or not all(isinstance(item, ScalarNode) for item in node.value):
            if node is not None:
                self.fault(key, "must be a list of plain values")
            return None
        return tuple((str(item.value), item.start_mark.line + 1) for item in node.value)

    def texts(self, key: str) -> tuple[tuple[str, int], ...]:
        """A list of texts, each with its line; a single text is taken as a list of one."""
        node = self._node(key)
        found: list[tuple[str, int]] = []
        for i, item in enumerate(node.value if isinstance(node, SequenceNode) else [node] if node is not None else []):
            line = item.start_mark.line + 1
            if isinstance(item, ScalarNode) and item.tag == _TAG + "str" and item.value.strip():
                found.append((item.value, line))
            else:
                self.faults.add(f"{self.at(key)}[{i}]", line, "must be a text")
        return tuple(found)

    def section(self, key: str) -> "Section | None":
        """A section below this one; None where it is not given."""
        node = self._node(key)
        if node is None:
            return None
        if not isinstance(node, MappingNode):
            self.fault(key, "must be a section of keys")
            return None
        return Section(node, self.at(key), self.faults)

    def plain(self, key: str) -> dict[str, Any]:
        """A section as plain data, for readers that know its keys only elsewhere; {} where it is not given."""
        return {} if self.section(key) is None else plain(self._values[key])

    def is_text(self, key: str) -> bool:
        """Whether the value is a plain text, for keys that take a name or a section."""
        return isinstance(self._values.get(key), ScalarNode)

    def sections(self, key: str) -> "Iterator[Section]":
        """A list of sections."""
        node = self._node(key)
        if node is None:
            return
        if not isinstance(node, SequenceNode):
            self.fault(key, "must be a list of sections")
            return
        for i, item in enumerate(node.value):
            path = f"{self.at(key)}[{i}]"
            if isinstance(item, MappingNode):
                yield Section(item, path, self.faults)
            else:
                self.faults.add(path, item.start_mark.line + 1, "must be a section of keys")
