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


@cache
def texts() -> dict[str, str]:
    """By path below the folder of specifications."""
    root = data() / "slo-specs"
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(_files(root))}


def _files(root: Path) -> Iterator[Path]:
    for folder in (*FORMATS, "nobl9-go", "otel-genai"):
        yield from (path for path in (root / folder).rglob("*") if path.suffix in {".yaml", ".yml", ".json"})


@cache
def imported(path: str) -> Imported:
    """One file, read."""
    return read_files([(path, texts()[path])])
