"""Writes plain values as YAML for people: keys in the order given, texts of several lines as blocks."""

from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString


def dump(values: list[dict[str, Any]], comment: str = "") -> str:
    """Plain values as a YAML text of one or more documents, texts of several lines as blocks."""
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 4096
    yaml.encoding = None  # type: ignore[assignment] # texts, not bytes
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = _Text()
    yaml.dump_all([_blocks(value) for value in values], out)
    return "".join(f"# {line}\n" for line in comment.splitlines()) + "".join(out.parts)


def compact(value: dict[str, Any], comment: str = "", width: int = 160) -> str:
    """Plain values as one document: whatever holds no mapping or list of its own stands on one line."""
    yaml = YAML(typ="safe", pure=True)
    yaml.encoding = None  # type: ignore[assignment] # texts, not bytes
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = width
    out = _Text()
    yaml.dump(value, out)
    return "".join(f"# {line}\n" for line in comment.splitlines()) + "".join(out.parts)


def _blocks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _blocks(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_blocks(item) for item in value]
    if (
        isinstance(value, str)
        and "\n" in value.strip("\n")
        and not any(ord(sign) < 32 for sign in value if sign != "\n")
    ):
        lines = value.split("\n")
        if value[:1] not in {" ", "\n"} and not any(line != line.rstrip() for line in lines):
            return LiteralScalarString(value)
    return value


class _Text:
    """The stream that the YAML library writes to."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, part: str) -> None:
        """Keep it."""
        self.parts.append(part)
