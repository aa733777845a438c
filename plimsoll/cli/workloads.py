"""Workload files from disk, with the traces that they name; whatever a trace leaves out is counted."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import TraceError, UsageError
from plimsoll.policy.policy import Policy
from plimsoll.sim.outage import Outage, Upgrade
from plimsoll.sim.summary import LeftOut
from plimsoll.sim.workload import Workload
from plimsoll.sim.workloaddocument import parse
from plimsoll.storage import traces
from plimsoll.storage.tracerow import TraceRow


def text_of(path: Path) -> str:
    """The text of a workload file. Raises UsageError where there is none."""
    if not path.is_file():
        raise UsageError(f"no workload file {path}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error


def load(path: Path, text: str = "") -> tuple[Workload, tuple[LeftOut, ...]]:
    """A workload file (or a changed text of it) with its traces, whose paths are relative to it.

    Raises UsageError, PolicyError, TraceError.
    """
    left_out: Counter[str] = Counter()
    first: dict[str, str] = {}

    def read(file: str, leave_out: bool) -> Sequence[TraceRow]:
        def note(error: TraceError) -> None:
            left_out[file] += 1
            first.setdefault(file, f"row {error.row}: {error.rule}")

        return list(traces.read(path.parent / file, note if leave_out else None))

    workload = parse(text or text_of(path), str(path), read)
    workload = workload.with_outages(tuple([_beside(path, each) for each in workload.outages]))
    return workload, tuple([LeftOut(file, num, first[file]) for file, num in left_out.items()])


def profiles_of(policy: Policy, workload: Workload) -> dict[str, EngineProfile]:
    """The engine profiles of a policy's pools and of what the workload makes of them. Raises ProfileError."""
    known = profiles.of_policy(policy)
    return known | {each.profile: profiles.load(each.profile) for each in workload.outages if each.profile}


def _beside(path: Path, each: Outage | Upgrade) -> Outage | Upgrade:
    """With a profile's file found from where the workload's lies."""
    is_file = each.profile.endswith((".yaml", ".yml"))
    return replace(each, profile=str(path.parent / each.profile)) if is_file else each
