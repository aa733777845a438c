"""The SLO files of other projects, as tests read them."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from plimsoll.policy.slospec import Imported
from plimsoll.policy.specfiles import read_files
from tests.shared_data import data

FORMATS = (
    "openslo",
    "openslo-go-sdk",
    "openslo-oslo",
    "openslo-slogen",
    "sloth",
    "pyrra",
    "slo-generator",
    "slo-libsonnet",
)


NOT_READ = ("nobl9-go", "otel-genai")
"""Folders in other formats, and tools' outputs below `_gen`: large, and all told as lost."""


@cache
def every_text() -> dict[str, str]:
    """By path below the folder of specifications."""
    root = data() / "slo-specs"
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(_files(root))}


@cache
def texts() -> dict[str, str]:
    """The same, without what is large and in no format that is read."""
    return {path: text for path, text in every_text().items() if not (is_other(path) and len(text) > 4000)}


def is_other(path: str) -> bool:
    """Whether a file is of no format that is read."""
    return path.startswith(NOT_READ) or "/_gen/" in path or "/crd/" in path


def _files(root: Path) -> Iterator[Path]:
    for folder in (*FORMATS, *NOT_READ):
        yield from (path for path in (root / folder).rglob("*") if path.suffix in {".yaml", ".yml", ".json"})


@cache
def imported(path: str) -> Imported:
    """One file, read."""
    return read_files([(path, texts()[path])])
