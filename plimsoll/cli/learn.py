"""`plimsoll learn`: what a pool's own log teaches of its predictions, where that wins on requests it has not seen."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from msgspec import Struct
from rich.table import Table

from plimsoll.cli.boosting import forecasts, grow
from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import DataDir, Json
from plimsoll.cli.output import print_json, terminal, write_text
from plimsoll.engine import profiles
from plimsoll.engine.learned import FEATURES, VERSION, HeldOut, LearnedModel
from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import UsageError
from plimsoll.policy.policy import Policy, Pool
from plimsoll.sim.estimate import Estimate
from plimsoll.sim.heldout import Comparison, compare, scaled, split
from plimsoll.sim.pastdispatches import Case, cases, visit_of

FEWEST = 500
"""Requests, to learn from and to hold out, each: of fewer a 90 % quantile says little."""


class Answer(Struct, frozen=True):
    """What `--json` prints. Losses are in s; `gain_*` below 0: the learnt one has less."""

    pool: str
    profile: str
    learnt_from: int
    held_out: int
    learned: HeldOut
    step_model: HeldOut
    gain_p50: Estimate
    gain_p90: Estimate
    wins: bool
    written: str  # "": nothing


def learn(
    directory: DataDir,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="Where the predictor goes (JSON), if it wins.")],
    pool: Annotated[str, Parameter(help="Whose; may be left out where only one pool has a profile.")] = "",
    part: Annotated[float, Parameter(help="Of the log's time, from which is learnt; the rest is held out.")] = 0.7,
    json_output: Json = False,
) -> None:
    """Learn from a pool's log how far off its predictions of TTFT are, and keep that where it wins on held-out data.

    Each dispatch of the log is predicted in hindsight by the profile's step times with their running correction. Trees
    (LightGBM: pip install 'plimsoll[learned]') learn from the first part of the time what these miss; both predict the
    rest, which neither has seen. Only where pinball losses of P50 and P90 are both lower beyond chance (95 % intervals
    over ten stretches of time) the file is written, for the policy to name: pools[].predictor. Else exit status 1.

    Example: plimsoll learn data --pool chat -o chat-predictor.json
    """
    from plimsoll.storage.promised import policy_in_force  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.query import records  # noqa: PLC0415 - as above

    if not 0.1 <= part <= 0.9:
        raise UsageError(f"learn: --part {part:g}: must be from 0.1 to 0.9")
    root = data_directory(directory)
    chosen = _chosen(policy_in_force(root), pool)
    profile = profiles.of_pool(msgspec.structs.replace(chosen, predictor=""))
    visits = [visit_of(row, profile.block_size) for row in records(root) if row.pool == chosen.name]
    before, after = split(cases([visit for visit in visits if visit is not None], profile), part)
    _check(chosen, before, after)
    found = compare(after, forecasts(before, after), scaled(before, after))
    if found.wins:
        write_text(out, _file(profile, chosen, before, found))
    answer = Answer(
        chosen.name, profile.name, len(before), found.num, found.learned, found.step_model, found.gain_p50,
        found.gain_p90, found.wins, str(out) if found.wins else "",
    )  # fmt: skip
    if json_output:
        print_json(answer)
    else:
        _show(answer)
    if not found.wins:
        sys.exit(1)


def _chosen(policy: Policy, name: str) -> Pool:
    known = {pool.name: pool for pool in policy.pools if pool.profile}
    if not known:
        raise UsageError("learn: no pool of this policy has a profile, so nothing is predicted that could be corrected")
    if name and name not in known:
        raise UsageError(f"learn: no pool with a profile is named {name!r}; known: {', '.join(known)}")
    if not name and len(known) > 1:
        raise UsageError(f"learn: say which pool: --pool {' or '.join(known)}")
    return known[name] if name else next(iter(known.values()))


def _check(pool: Pool, before: list[Case], after: list[Case]) -> None:
    if min(len(before), len(after)) < FEWEST:
        raise UsageError(
            f"learn: {len(before)} requests of pool {pool.name} to learn from and {len(after)} to hold out, at least "
            f"{FEWEST} each are needed: streamed ones that completed at the first attempt"
        )


def _file(profile: EngineProfile, pool: Pool, before: list[Case], found: Comparison) -> str:
    p50, p90 = grow(before)
    source = f"plimsoll learn: pool {pool.name}, {len(before)} requests; held out: {found.num} after these"
    model = LearnedModel(VERSION, profile.name, source, FEATURES, p50, p90, found.learned, found.step_model)
    return msgspec.json.encode(model).decode() + "\n"


def _show(answer: Answer) -> None:
    console = terminal(120)
    console.print(
        f"[bold]pool {answer.pool}[/], profile {answer.profile}: learnt from {answer.learnt_from:,} requests, held "
        f"against the {answer.held_out:,} that came after them", soft_wrap=True
    )  # fmt: skip
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("TTFT predicted at dispatch", no_wrap=True)
    for heading in ("error p50", "error p90", "mean signed", "pinball p50", "pinball p90"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, each in (("by step times, corrected", answer.step_model), ("learnt on top", answer.learned)):
        table.add_row(
            name, f"{each.median_error:.1%}", f"{each.p90_error:.1%}", f"{each.signed_error:+.1%}",
            f"{1e3 * each.pinball_p50:.2f}ms", f"{1e3 * each.pinball_p90:.2f}ms",
        )  # fmt: skip
    console.print(table)
    for name, gain in (("p50", answer.gain_p50), ("p90", answer.gain_p90)):
        if gain.mean is not None and gain.low is not None and gain.high is not None:
            console.print(f"{name} loss: {1e3 * gain.mean:+.2f}ms ({1e3 * gain.low:+.2f} to {1e3 * gain.high:+.2f})")
    if answer.wins:
        console.print(
            f"[green]wins[/]: {answer.written} holds it; name it in the policy: pools[].predictor", soft_wrap=True
        )
    else:
        console.print("[yellow]does not win[/] beyond chance: nothing is written, step times stay", soft_wrap=True)
