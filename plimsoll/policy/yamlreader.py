"""The one way in which we read YAML: safe, with line numbers, and refusing at once what nests beyond all meaning.

The library looks at every open level for each further sign: 4,000 opening brackets take it six seconds, 8,000 four
times as long. Here the hundred-and-first level is a fault of its line.
"""

from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.scanner import Scanner, ScannerError

DEEPEST: Final = 100
"""Levels; our documents have six, an OpenSLO one eight."""


class TooDeep(ScannerError):
    """Levels beyond all meaning: YAML, but nothing of ours."""


class _BoundedScanner(Scanner):
    """Counts levels where they are opened."""

    def fetch_flow_collection_start(self, *arguments: Any, **named: Any) -> Any:
        self._check(self.flow_level)
        return super().fetch_flow_collection_start(*arguments, **named)

    def add_indent(self, column: int) -> bool:
        self._check(len(self.indents))
        return bool(super().add_indent(column))

    def _check(self, depth: int) -> None:
        if depth >= DEEPEST:
            mark = self.reader.get_mark()
            raise TooDeep(None, None, f"nested too deeply to be meant (beyond {DEEPEST} levels)", mark)


def wrong_with(error: YAMLError) -> tuple[int, str]:
    """The line (0: not known) and the words for what the library could not read, without the text around it."""
    if not isinstance(error, MarkedYAMLError):
        return 0, f"not YAML: {' '.join(str(error).split())}"
    mark = error.problem_mark or error.context_mark
    words = str(error.problem or error.context)
    return (mark.line + 1 if mark else 0), words if isinstance(error, TooDeep) else f"not YAML: {words}"


def reader() -> YAML:
    """A reader of plain values (`load`) or of nodes with their places (`compose`, `compose_all`)."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = _BoundedScanner
    return yaml


def plain(node: Any) -> Any:
    """A composed node as plain data."""
    if isinstance(node, MappingNode):
        return {str(key.value): plain(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [plain(item) for item in node.value]
    kind, text = str(node.tag).rpartition(":")[2], str(node.value)
    if kind in {"bool", "null"}:
        return {"true": True, "false": False}.get(text.lower())
    if kind == "float":
        return float(text)
    return int(text.replace("_", ""), 0 if "0x" in text or "0o" in text else 10) if kind == "int" else text
