"""`plimsoll export openslo`: SLOs for other tools."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from msgspec import Struct

from plimsoll.cli.import_ import read_paths
from plimsoll.cli.options import Json
from plimsoll.cli.output import json_text, write_text
from plimsoll.errors import Fault, UsageError
from plimsoll.policy import document
from plimsoll.policy.openslo_form import to_openslo
from plimsoll.policy.slospec import Imported, Loss, decode
from plimsoll.policy.yamltext import dump
from plimsoll.telemetry.openslo import of_policy


class Exported(Struct, frozen=True):
    """All of it. `faults` are those of each file that was read, by its name."""

    openslo: tuple[dict[str, Any], ...]
    lost: tuple[Loss, ...]
    faults: tuple[tuple[str, Fault], ...]


def export(
    form: Literal["openslo"],
    source: Path,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    json_output: Json = False,
) -> None:
    """Write a policy's objectives, or SLOs imported from other tools, as OpenSLO v1.

    What OpenSLO cannot say is told on stderr. Exits with 1 when SLOs had to be left out.

    Parameters
    ----------
    form
        The format to write: openslo.
    source
        A policy, a file that `plimsoll import -o` wrote, or any file that `plimsoll import` reads.
    output
        Write to this file instead of the terminal.
    json_output
        Write one JSON object instead of YAML: the objects under `openslo`, what was lost and what is wrong.
    """
    found = _read(source)
    for name, fault in found.faults:
        print(f"plimsoll: {name}: {fault}", file=sys.stderr)  # noqa: T201 - beside the output
    objects, losses = to_openslo(found)
    text = dump(objects) if objects else ""
    if json_output:
        text = json_text(Exported(tuple(objects), (*found.losses, *losses), tuple(found.faults)))
    if output is not None:
        write_text(output, text)
    else:
        print(text, end="")  # noqa: T201 - the command's output
    for loss in (*found.losses, *losses):
        print(f"plimsoll: lost: {loss}", file=sys.stderr)  # noqa: T201 - beside the output
    if found.faults or losses:
        sys.exit(1)


def _read(source: Path) -> Imported:
    try:
        start = source.read_bytes()[:65536]
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from error
    if b'"plimsoll_slos"' in start[:200]:
        return decode(source.read_bytes(), str(source))
    if any(line.startswith(b"plimsoll:") for line in start.splitlines()):
        return of_policy(document.load(source))
    return read_paths([source])
