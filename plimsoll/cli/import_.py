"""`plimsoll import`: what do SLO files of other tools say?"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from plimsoll.cli.options import Json
from plimsoll.cli.output import terminal, write_text
from plimsoll.errors import UsageError
from plimsoll.policy.llm import policy_fragment
from plimsoll.policy.slospec import Imported, Slo, encode
from plimsoll.policy.specfiles import read_files
from plimsoll.units import format_ratio

_SUFFIXES = {".yaml", ".yml", ".json"}
_LARGEST = 16 * 1024 * 1024


def import_(
    paths: Annotated[list[Path], Parameter(negative="")],
    *,
    json_output: Json = False,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    as_policy: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Read SLOs of OpenSLO (v1, v1alpha), Sloth, Pyrra and slo-generator, and tell what could not be read.

    Every key of a file is either read or listed as lost, with its line and the reason. Exits with 0 when all files
    are good, 1 when some have faults (the good ones are read all the same), 2 when a file cannot be had.

    Parameters
    ----------
    paths
        Files, or directories of .yaml, .yml and .json files.
    json_output
        Print the SLOs and the report as one JSON object; `plimsoll export openslo` reads it.
    output
        Write that JSON object to a file.
    as_policy
        Print the objectives on LLM latencies (TTFT, ITL, TPOT, E2E of vLLM, SGLang …) as tiers of a policy.
    """
    found = read_paths(paths)
    if output is not None:
        write_text(output, encode(found).decode() + "\n")
    if as_policy:
        _show_policy(found)
    elif json_output:
        print(encode(found).decode())  # noqa: T201 - the command's output
    else:
        _show(found)
    if found.faults:
        sys.exit(1)


def read_paths(paths: list[Path]) -> Imported:
    """All SLO files of those paths, read; UsageError where one cannot be had."""
    files = [file for path in paths for file in _files(path)]
    if not files:
        raise UsageError("no .yaml, .yml or .json file there")
    return read_files((str(file), _text(file)) for file in files)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in sorted(path.rglob("*")) if file.suffix in _SUFFIXES and file.is_file())
    else:
        yield path


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(raw) > _LARGEST:
        raise UsageError(f"{path} has {len(raw)} bytes: hardly SLOs")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error


def _show(found: Imported) -> None:
    console = terminal(200, soft_wrap=True)
    if found.slos:
        table = Table("service", "SLO", "kind", "target", "window", box=None, pad_edge=False)
        for slo in found.slos:
            table.add_row(*[escape(cell) for cell in _row(slo)])
        console.print(table)
    for source, fault in found.faults:
        console.print(f"[red]fault[/]    {escape(source)}: {escape(str(fault))}")
    for source, warning in found.warnings:
        console.print(f"[yellow]warning[/]  {escape(source)}: {escape(str(warning))}")
    for loss in found.losses:
        console.print(f"[yellow]lost[/]     {escape(str(loss))}")
    counts = {
        "file": len(found.sources), "SLO": len(found.slos), "other object": len(found.definitions),
        "fault": len(found.faults), "warning": len(found.warnings), "part": len(found.losses),
    }  # fmt: skip
    told = [f"{num} {noun}{'s' * (num != 1)}{' lost' * (noun == 'part')}" for noun, num in counts.items()]
    console.print(f"[bold]{', '.join(told)}[/]")


def _row(slo: Slo) -> tuple[str, ...]:
    kind = slo.indicator.kind.value if slo.indicator is not None else f"→ {slo.indicator_ref}"
    window = "" if slo.window is None else f"{slo.window} {'rolling' if slo.window.rolling else 'calendar'}"
    return slo.service, slo.meta.name, kind, format_ratio(slo.target), window


def _show_policy(found: Imported) -> None:
    text, others = policy_fragment(found)
    print(text or "# no objective on the latency of an LLM engine", end="" if text else "\n")  # noqa: T201 - output
    for name, reason in others:
        print(f"plimsoll: {name}: {reason}", file=sys.stderr)  # noqa: T201 - beside the output
