"""Page 3: the three steps as one path, space, time, cause, down to one request's timeline. Pure."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from plimsoll.console import tenantcharts
from plimsoll.console.leads import tier_of
from plimsoll.console.lineview import tail_lines
from plimsoll.console.plots import Bar, Bars, Heat, Lines, Mark
from plimsoll.console.seen import Seen
from plimsoll.console.tenantreading import SlowRequest, TenantLog
from plimsoll.diagnosis.explain import Explanation
from plimsoll.diagnosis.findings import Findings, TenantFindings
from plimsoll.storage.chronicle import JournalEntry
from plimsoll.units import format_duration

MOST: Final = 12
"""Rows and columns of the matrix: those that cost most."""
PART_KINDS: Final = {
    "gateway_queue": "s1", "engine_queue": "s3", "kv_pressure": "s5", "own_prefill": "s4", "others_prefill": "bad",
    "decode": "s2", "stall": "bad", "client": "dimmed", "unknown": "dimmed", "upstream": "s5",
    "plugins": "s3",
}  # fmt: skip


class Choice(Struct, frozen=True):
    """A tenant that may be looked at, with how many of its requests missed an objective."""

    tenant: str
    num_bad: int
    num: int


class DiagnoseView(Struct, frozen=True):
    """The path for one tenant. `found` None: nothing is known of it in this window."""

    tenant: str
    tier: str
    choices: tuple[Choice, ...]
    found: TenantFindings | None
    matrix: Heat
    time: Lines | None
    parts: Bars
    slow: tuple[SlowRequest, ...]
    culprit: str  # the tenant that is the likeliest cause; "": the cause is no other tenant
    culprit_href: str  # why it is: its own diagnosis where that names it too, else its page
    num: int
    first_arrival: float | None
    last_arrival: float | None


class RequestView(Struct, frozen=True):
    """One request: its timeline, its parts, who was beside it."""

    found: Explanation
    parts: Bars


def diagnose_view(seen: Seen, findings: Findings, tenant: str, log: TenantLog | None) -> DiagnoseView:
    """`log`: the tenant in the same window, for its share of missed objectives by slice and its slow requests."""
    found = next((each for each in findings.tenants if each.tenant == tenant), None)
    zone = seen.policy.service.timezone
    marks = _marks(found, [entry for entry in seen.entries if entry.kind != "request"], tenant)
    culprit = _culprit(seen, findings, found)
    return DiagnoseView(
        tenant=tenant,
        tier=tier_of(tenant, seen.policy),
        choices=_choices(seen, findings),
        found=found,
        matrix=_matrix(findings),
        time=None if log is None or not log.num else tenantcharts.missed_lines(log, zone, marks),
        parts=_parts(found),
        slow=log.slow if log else (),
        culprit=culprit,
        culprit_href=_why(culprit, findings),
        num=findings.num,
        first_arrival=findings.first_arrival,
        last_arrival=findings.last_arrival,
    )


def _culprit(seen: Seen, findings: Findings, found: TenantFindings | None) -> str:
    """The other tenant that the likeliest cause is about; a cause may be about a replica, too."""
    cause = found.causes[0] if found and found.causes else None
    names = {each.name for each in seen.policy.tenants} | set(findings.crowding.culprits)
    return cause.subject if cause and found and cause.subject in names - {found.tenant} else ""


def _why(culprit: str, findings: Findings) -> str:
    """What it does shows best where it hurts itself as well; else in its own figures."""
    named = any(
        each.tenant == culprit and each.causes and each.causes[0].subject == culprit for each in findings.tenants
    )
    name = quote(culprit, safe="")
    return f"/diagnose?tenant={name}" if named else f"/tenants/{name}"


def _choices(seen: Seen, findings: Findings) -> tuple[Choice, ...]:
    """Those in trouble as the findings have them, then everybody else who came."""
    found = {each.tenant: Choice(each.tenant, each.num_bad, each.num) for each in findings.tenants}
    for line in tail_lines(seen.hour) if seen.hour else ():
        found.setdefault(line.tenant, Choice(line.tenant, line.num_bad, line.num))
    return tuple(found.values())


def _matrix(findings: Findings) -> Heat:
    matrix = findings.crowding
    rows = sorted(range(len(matrix.victims)), key=lambda i: -sum(matrix.seconds[i]))[:MOST]
    sums = [sum(row[j] for row in matrix.seconds) for j in range(len(matrix.culprits))]
    columns = sorted(range(len(sums)), key=lambda j: -sums[j])[:MOST]
    span = (findings.last_arrival or 0.0) - (findings.first_arrival or 0.0)
    return Heat(
        "crowding", "Who waited for whose requests", "s", format_duration(span), findings.num,
        tuple([matrix.victims[i] for i in rows]),
        tuple([matrix.culprits[j] for j in columns]),
        tuple([tuple([matrix.seconds[i][j] for j in columns]) for i in rows]),
    )  # fmt: skip


def _marks(found: TenantFindings | None, entries: Sequence[JournalEntry], tenant: str) -> list[Mark]:
    marks = [Mark(entry.at, entry.text, "mark") for entry in entries if entry.tenant in {"", tenant}]
    for change in found.changes if found else ():
        told = (
            f"{change.before.ratio:.1%} → {change.after.ratio:.1%} ({change.after.low:.1%} – {change.after.high:.1%})"
        )
        marks.append(Mark(change.at, told, "worse" if change.worse else "better"))
    return marks


def _parts(found: TenantFindings | None) -> Bars:
    rows = [
        Bar(
            each.part, ((each.how, each.seconds, PART_KINDS.get(each.part, "s1")),), f"+{format_duration(each.seconds)}"
        )
        for each in (found.excess if found else ())
        if each.seconds > 0
    ]
    num = found.num_slow if found else 0
    than = {"before": "against like ones before", "fine": "against like ones that were fine"}
    return Bars(
        "parts", "Where slow requests spent more", "s", than.get(found.compared if found else "", "–"), num, tuple(rows)
    )


def request_view(found: Explanation) -> RequestView:
    """The page of one request."""
    parts = tuple([(each.part, each.seconds, PART_KINDS.get(each.part, "s1")) for each in found.parts])
    row = Bar("", parts, format_duration(found.total))
    return RequestView(found, Bars("parts", "Where its time went", "s", "one request", 1, (row,) if parts else ()))


def request_path(request: str) -> str:
    """Where a request's page is."""
    return f"/requests/{quote(request, safe='')}"
