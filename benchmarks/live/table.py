"""The table that people read, and the same as plain values."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from benchmarks.live.ranking import HOLDS, P99, Agreement, agreement, expected, holds, order, ratio
from benchmarks.live.session import Row
from benchmarks.live.stage import FAIR, NOISY, Stage


def lines(rows: Sequence[Row], stage: Stage) -> list[str]:
    """Each rival's P99s, then the order, then how the machine was."""
    width = max(len(row.arm) for row in rows)
    found = [f"{'':{width}}  neighbour  simulated{'':22} live{'':27} live ÷ simulated"]
    for row in rows:
        found.append(_line(row, width))
        if row.kind == NOISY:
            found.append(f"{'':{width}}  noisy ÷ fair: {_to_fair(rows, row.arm)}")
    return [*found, *_verdict(rows), *_machine(rows, stage)]


def _line(row: Row, width: int) -> str:
    told = f"{row.arm if row.kind == FAIR else '':{width}}  {row.kind:9}  {shown(row.simulated):31}"
    if row.live is None:
        return told
    hold = holds(row.live.value, row.simulated.value)
    word = {None: "no bound in either", True: "holds", False: "does not hold"}[hold]
    mark = f" ! starved: {'; '.join(row.complaints)}" if row.complaints else ""
    own = (
        ""
        if row.gateway is None
        else f" (by the gateway's clock {_plain(ratio(row.gateway.value, row.simulated.value))})"
    )
    off = _plain(ratio(row.live.value, row.simulated.value))
    return f"{told} {shown(row.live):31} {off} {word}{own}{mark}"


def shown(p99: P99) -> str:
    """Value and interval."""
    high = f"{p99.high:.3g}" if p99.high < inf else "?"
    value = f"{p99.value:.3g} s" if p99.value < inf else "never"
    return f"{value} ({p99.low:.3g} to {high})" + (f", {p99.lost} lost" if p99.lost else "")


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _to_fair(rows: Sequence[Row], arm: str) -> str:
    by_kind = {row.kind: row for row in rows if row.arm == arm}
    fair, noisy = by_kind[FAIR], by_kind[NOISY]
    told = f"simulated {_plain(ratio(noisy.simulated.value, fair.simulated.value))}"
    if noisy.live is None or fair.live is None:
        return told
    return f"{told}, live {_plain(ratio(noisy.live.value, fair.live.value))}"


def worlds(rows: Sequence[Row], kind: str) -> tuple[dict[str, P99], dict[str, P99]]:
    """(simulated, live) P99s by rival, of runs that count."""
    counted = [row for row in rows if row.kind == kind and row.counts]
    return (
        {row.arm: row.simulated for row in counted},
        {row.arm: row.live for row in counted if row.live is not None},
    )


def _verdict(rows: Sequence[Row]) -> list[str]:
    if not any(row.live for row in rows):
        return [f"order simulated: {order({row.arm: row.simulated for row in rows if row.kind == NOISY})}"]
    simulated, live = worlds(rows, NOISY)
    found = agreement(simulated, live)
    pairs = [(row.live, row.simulated) for row in rows if row.counts and row.live is not None]
    held = [holds(ours.value, theirs.value) for ours, theirs in pairs]
    inside = sum(expected(*pair) for pair in pairs)
    return [
        f"order simulated: {order(simulated)}",
        f"order live:      {order(live)}",
        f"same order: {_same(found)}: of {found.alike + found.tied + len(found.against)} pairs {found.alike} alike,"
        f" {found.tied} tied, {len(found.against)} against{_named(found)}; Spearman {_plain(found.spearman)}",
        f"simulated P99 within {HOLDS:.0%} live: {held.count(True)} of {len(held) - held.count(None)},"
        f" live P99 within the simulated interval: {inside} of {len(pairs)}"
        f" ({sum(not row.counts for row in rows)} of {len(rows)} left out: starved machine)",
    ]


def _same(found: Agreement) -> str:
    return {None: "no pair can be told apart", True: "yes", False: "no"}[found.same]


def _named(found: Agreement) -> str:
    return "".join(f"; {a} and {b}" for a, b in found.against)


def _machine(rows: Sequence[Row], stage: Stage) -> list[str]:
    health = [(row, each) for row in rows for each in row.health]
    if not health:
        return []
    found = [f"machine, by run (limits: {stage.least_idle:.0%} idle, answers within {stage.most_lag * 1e3:.0f} ms):"]
    for row, each in health:
        lag = ", ".join(f"{name} {lag * 1e3:.1f}/{each.lag_most[name] * 1e3:.0f}" for name, lag in each.lag_p99.items())
        wait = ", ".join(f"{name} {part:.1%}" for name, part in each.waiting.items())
        found.append(
            f"  {row.arm}, {row.kind}: idle {each.idle:.0%}; answers P99/most ms: {lag}; waited for a core: {wait};"
            f" client late P99 {each.late_p99 * 1e3:.1f} ms"
        )
    return found


def values(rows: Sequence[Row]) -> Mapping[str, Any]:
    """For `--json`."""
    simulated, live = worlds(rows, NOISY)
    return {
        "rows": [
            {
                **{name: getattr(row, name) for name in ("arm", "kind", "simulated", "live", "gateway", "complaints")},
                "health": row.health,
                "live_to_simulated": ratio(row.live.value, row.simulated.value) if row.live else None,
                "holds": holds(row.live.value, row.simulated.value) if row.live else None,
                "within_interval": expected(row.live, row.simulated) if row.live else None,
            }
            for row in rows
        ],
        "order": {"simulated": order(simulated), "live": order(live)},
        "agreement": agreement(simulated, live),
        "same_order": agreement(simulated, live).same,
    }
