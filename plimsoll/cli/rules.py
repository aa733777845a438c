"""`plimsoll rules`: recording and alerting rules for Prometheus."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from plimsoll.cli.options import Json
from plimsoll.cli.output import json_text, write_text
from plimsoll.policy import document
from plimsoll.policy.yamltext import dump
from plimsoll.telemetry.rules import rules as rules_of
from plimsoll.telemetry.ruletests import tests_of


def rules(
    policy: Path,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    native: Annotated[bool, Parameter(negative="")] = False,
    tests: Annotated[Path | None, Parameter(negative="")] = None,
    json_output: Json = False,
) -> None:
    """Write Prometheus rules for a policy: burn rates by tenant and objective, alerts, P99 ÷ P50.

    Windows follow from each target, so that every alert can fire. Load the file under `rule_files`, and check it
    with `promtool check rules`.

    Parameters
    ----------
    policy
        The policy file.
    output
        Write to this file instead of the terminal.
    native
        Ask latencies of native histograms instead of classic ones.
    tests
        Write unit tests of these rules to this file too, beside the rules (-o): `promtool test rules FILE`.
    json_output
        Write the rules as one JSON object instead of YAML.
    """
    promised = document.load(policy)
    comment = f"Rules for {policy.name} (version {promised.version}), written by `plimsoll rules`: do not edit."
    made = rules_of(promised, native=native)
    text = json_text(made) if json_output else dump([made], comment)
    if output is not None:
        write_text(output, text)
    else:
        print(text, end="")  # noqa: T201 - the command's output
    if tests is not None:
        write_text(tests, dump([tests_of(promised, output.name if output else "rules.yml")], comment))
