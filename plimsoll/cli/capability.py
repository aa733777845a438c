"""`plimsoll capability`: what replicas and models have shown that they can do."""

from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import DataDir, Json
from plimsoll.cli.output import print_json, terminal


def capability(directory: DataDir, *, json_output: Json = False) -> None:
    """Show what replicas and models can do: steady speed, stalls, and their place between quality and latency.

    Of the week before the log's last request. Speeds are compared at like load only; a tier with `prefer: capable`
    avoids replicas that are called unsteady. `serves` tells the tiers whose requests go to a model first, by their
    `classes` or by what was measured. Reads the log while a gateway writes it, and changes nothing.

    Parameters
    ----------
    json_output
        Print everything as one JSON object (durations in s, instants in UTC epoch s).
    """
    from plimsoll.storage.capabilities import measured  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - as above

    root = data_directory(directory)
    found = measured(root, policy_in_force(root))
    if json_output:
        print_json(found)
        return
    from plimsoll.cli.capabilitytable import show  # noqa: PLC0415 - tables, only where they are needed

    show(found, terminal())
