"""Other tools' documents (YAML or JSON), read with an account: every value is either taken or told as lost.

A `Value` is one value with its path and line. A reader asks for what it knows; `close` then walks the document
and lists whatever nobody took, so that no key is dropped in silence.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from plimsoll.errors import Fault
from plimsoll.policy.account import Account, join
from plimsoll.policy.yamlreader import reader

_TAG: Final = "tag:yaml.org,2002:"
_MOST_VALUES: Final = 200_000
_DEEPEST: Final = 60


class Value:
    """One value of a document: a mapping, a list or a scalar, with its path and line."""

    __slots__ = ("_asked", "_done", "_fields", "_items", "_tag", "_text", "account", "key", "line", "parent", "path")

    def __init__(
        self, node: Any, path: str, account: Account, *, parent: "Value | None" = None, key: str = "", depth: int = 0
    ) -> None:
        self.path, self.account, self.parent, self.key = path, account, parent, key
        self.line: int = node.start_mark.line + 1
        self._tag = ""
        self._text = ""
        self._fields: dict[str, Value] | None = None
        self._items: list[Value] | None = None
        self._asked: dict[str, None] = {}
        self._done = False
        account.num_values += 1
        if depth > _DEEPEST or account.num_values > _MOST_VALUES:
            raise RecursionError("nested too deeply, or too large, to be meant")
        self._fill(node, depth)

    def _fill(self, node: Any, depth: int) -> None:
        if isinstance(node, ScalarNode):
            self._tag, self._text = str(node.tag).removeprefix(_TAG), str(node.value)
        elif isinstance(node, SequenceNode):
            self._items = [
                Value(item, f"{self.path}[{i}]", self.account, parent=self, key=str(i), depth=depth + 1)
                for i, item in enumerate(node.value)
            ]
        elif isinstance(node, MappingNode):
            self._fields = {}
            for key_node, item in node.value:
                key = str(key_node.value) if isinstance(key_node, ScalarNode) else "(no text)"
                path = join(self.path, key)
                if key in self._fields:
                    first = self._fields[key].line
                    self.account.fault(path, key_node.start_mark.line + 1, f"given twice, first in line {first}")
                    continue
                value = Value(item, path, self.account, parent=self, key=key, depth=depth + 1)
                value.line = key_node.start_mark.line + 1
                self._fields[key] = value

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return self._fields is not None

    @property
    def is_list(self) -> bool:
        """Whether it has items."""
        return self._items is not None

    @property
    def is_null(self) -> bool:
        """Whether nothing was given."""
        return self._tag == "null"

    def __contains__(self, key: str) -> bool:
        return self._fields is not None and key in self._fields and not self._fields[key].is_null

    @property
    def keys(self) -> tuple[str, ...]:
        """Of a mapping, in the document's order."""
        return tuple(self._fields or ())

    def peek(self, key: str) -> str:
        """The text of a key, without taking it; "" where there is none."""
        found = (self._fields or {}).get(key)
        return found._text if found is not None else ""

    def get(self, key: str) -> "Value | None":
        """The value of a key; None where it is not given, or null."""
        self._asked[key] = None
        found = (self._fields or {}).get(key)
        if found is None:
            return None
        if found.is_null:
            found._done = True
            return None
        if found._fields == {} or found._items == []:
            found._done = True
        return found

    def need(self, key: str) -> "Value | None":
        """The same; its absence is a fault."""
        found = self.get(key)
        if found is None:
            self.account.fault(join(self.path, key), self.line, "missing")
        return found

    def mapping(self, key: str, *, required: bool = False) -> "Value | None":
        """A section below this one; another kind of value is a fault."""
        found = self.need(key) if required else self.get(key)
        if found is not None and not found.is_mapping:
            found.fault("must be a section of keys")
            return None
        return found

    def items(self, key: str, *, required: bool = False) -> "Iterator[Value]":
        """The items of a list; another kind of value is a fault, and so is an empty one where required."""
        found = self.need(key) if required else self.get(key)
        if found is None:
            return
        if found._items is None:
            found.fault("must be a list")
        elif required and not found._items:
            found.fault("is empty")
        yield from found._items or ()

    def each(self) -> "Iterator[tuple[str, Value]]":
        """Keys with their values, null ones too, for mappings with free keys."""
        self._done = not self._fields
        for key, value in (self._fields or {}).items():
            self._asked[key] = None
            yield key, value

    def each_item(self) -> "Iterator[Value]":
        """The items of this list."""
        self._done = not self._items
        yield from self._items or ()

    def text(self, key: str, default: str = "", *, required: bool = False) -> str:
        """A scalar as it was written, number or not; an empty one counts as missing where it is required."""
        found = self.get(key)
        if found is not None and (written := found.scalar()) is not None:
            if written.strip() or not required:
                return written
            found.fault("is empty")
            return default
        if found is None and required:
            self.account.fault(join(self.path, key), self.line, "missing")
        return default

    def scalar(self) -> str | None:
        """This value as it was written; None with a fault where it is a section or a list."""
        if self._fields is not None or self._items is not None:
            self.fault("must be one value, not a list or a section")
            self.plain()
            return None
        self._done = True
        return self._text

    def number(self, key: str, *, required: bool = False) -> Fraction | None:
        """The exact value of the digits; None (with a fault where it is no number) where there is none."""
        found = self.need(key) if required else self.get(key)
        written = found.scalar() if found is not None else None
        if found is None or written is None:
            return None
        try:
            if len(written) <= 60 and "/" not in written:
                return Fraction(written.strip())
        except ValueError:
            pass
        found.fault(f"must be a number, not {written[:40]!r}")
        return None

    def flag(self, key: str) -> bool | None:
        """true or false; None where it is not given."""
        found = self.get(key)
        written = found.scalar() if found is not None else None
        if found is None or written is None:
            return None
        if found._tag != "bool":
            found.fault(f"must be true or false, not {written[:40]!r}")
            return None
        return written.lower() == "true"

    def choice(self, key: str, words: tuple[str, ...], *, required: bool = False) -> str:
        """One of some words; "" (with a fault where it is another) where there is none."""
        word = self.text(key, required=required)
        if word and word not in words and (found := self.get(key)) is not None:
            near = get_close_matches(word, words, n=1)
            found.fault(f"{word!r} is none of {', '.join(words)}", f"nearest: {near[0]}" if near else "")
            return ""
        return word

    def plain(self) -> Any:
        """Everything from here down as plain values, taken as it is."""
        self._done = True
        if self._fields is not None:
            return {key: value.plain() for key, value in self._fields.items()}
        if self._items is not None:
            return [value.plain() for value in self._items]
        return _plain_scalar(self._tag, self._text)

    def lose(self, reason: str) -> None:
        """Nothing from here down is carried over, and why."""
        self.account.lose(self.path, self.line, reason)
        self.plain()

    def lose_key(self, key: str, reason: str) -> None:
        """The same for a key, where it is given."""
        found = (self._fields or {}).get(key)
        self._asked[key] = None
        if found is not None:
            found.lose(reason)

    def fault(self, message: str, hint: str = "") -> None:
        """Note that this value is wrong."""
        self._done = True
        self.account.fault(self.path, self.line, message, hint)

    def warn(self, message: str, hint: str = "") -> None:
        """Note that this value was taken, though it is not as its format has it."""
        self.account.warnings.append(Fault(self.path or "(document)", message, self.line, hint, warning=True))

    def nearest(self, key: str) -> str:
        """The known key that looks most like this one."""
        near = get_close_matches(key, list(self._asked), n=1, cutoff=0.6)
        return near[0] if near else ""

    def left_over(self) -> "Iterator[Value]":
        """The topmost values that nobody asked for, and asked ones of which nothing was taken."""
        children = [*(self._fields or {}).values(), *(self._items or [])]
        parent = self.parent
        asked = parent is None or parent.is_list or self.key in parent._asked
        if not self._any_done() and not (asked and children):
            yield self
            return
        for value in children:
            yield from value.left_over()

    def _any_done(self) -> bool:
        children = [*(self._fields or {}).values(), *(self._items or [])]
        return self._done or any(child._any_done() for child in children)


def close(document: Value, format_name: str, *, strict: bool) -> None:
    """List whatever of the document was neither taken nor told as lost; as faults, where the format is strict."""
    account = document.account
    for value in document.left_over():
        near = value.parent.nearest(value.key) if value.parent is not None else ""
        if strict:
            account.fault(value.path, value.line, f"no key of {format_name}", f"nearest: {near}" if near else "")
        else:
            hint = f" (nearest: {near})" if near else ""
            account.lose(value.path, value.line, f"no key of {format_name}{hint}")


def documents(text: str, account: Account) -> list[Value]:
    """Every document of a text, lists of documents taken apart; empty ones left out. Faults say why there are none."""
    try:
        nodes = list(reader().compose_all(text))
        found = [node for node in nodes if node is not None and getattr(node, "tag", "") != _TAG + "null"]
        several = len(found) > 1
        values = [Value(node, f"#{i + 1}" if several else "", account) for i, node in enumerate(found)]
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        account.fault("", mark.line + 1 if mark else 0, f"neither YAML nor JSON: {error.problem or error.context}")
        return []
    except (YAMLError, ValueError) as error:
        account.fault("", 0, f"neither YAML nor JSON: {' '.join(str(error).split())}")
        return []
    except RecursionError:
        account.fault("", 0, "nested too deeply, or too large, to be meant")
        return []
    return [item for value in values for item in (value._items if value._items is not None else [value])]


def _plain_scalar(tag: str, text: str) -> Any:
    """By the tags of JSON; a date stays the text that it is."""
    try:
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag == "int":
            return (
                int(text.replace("_", ""), 0) if text.lstrip("+-")[:2] in {"0x", "0o"} else int(text.replace("_", ""))
            )
        if tag == "float":
            return float(text.replace("_", ""))
    except ValueError:
        return text
    return text
