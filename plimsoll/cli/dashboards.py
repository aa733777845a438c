"""`plimsoll dashboards`: Grafana dashboards."""

from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from plimsoll.cli.options import Json
from plimsoll.cli.output import print_json, write_text
from plimsoll.errors import StorageError
from plimsoll.telemetry.dashboards import dashboards as all_of_them
from plimsoll.telemetry.dashboards import grafana


def dashboards(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("dashboards"),
    native: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> None:
    """Write Grafana dashboards over /metrics: the line, tenants, diagnose, cache, replicas, decisions.

    Import them in Grafana (Dashboards, New, Import), or lay them into a provisioned folder.

    Parameters
    ----------
    output
        Folder to write to; made where it is missing.
    native
        Ask latencies of native histograms instead of classic ones.
    json
        Tell what was written as JSON: `dashboards`, each with `name`, `text` (its one line) and `file`.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{output} cannot be made: {error.strerror or error}") from error
    told = []
    for board in all_of_them(native=native):
        path = output / f"plimsoll-{board.name}.json"
        write_text(path, dumps(grafana(board), indent=1, ensure_ascii=False) + "\n")
        told.append({"name": board.name, "text": board.text, "file": str(path)})
    if json:
        print_json({"dashboards": told})
    else:
        print("\n".join(f"{each['file']}  {each['text']}" for each in told))  # noqa: T201 - the command's output
