"""What to look at first: one tenant, why it suffers, and where to go from there."""

from typing import Final
from urllib.parse import quote

from msgspec import Struct

from plimsoll.diagnosis.case import Cause
from plimsoll.diagnosis.findings import Findings, TenantFindings
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.policy.policy import Policy

NEIGHBOURS: Final = frozenset({CauseKind.NEIGHBOUR_LONG_PROMPTS, CauseKind.NEIGHBOUR_SURGE})


class Lead(Struct, frozen=True):
    """The first sentence of the first page, and its link. `cause` empty: something is wrong, nobody is accused."""

    tenant: str
    tier: str
    num: int
    num_bad: int
    since: float | None
    cause: str
    subject: str
    likelihood: float
    mechanism: str
    href: str


def lead_of(found: Findings, policy: Policy) -> Lead | None:
    """The tenant that is worst off; None where nobody is badly off.

    Those with a likely cause go first, then by how many times more was missed than promises allow, heaviest first. Who
    suffers from what it does itself comes after those who suffer from that no less: they cannot help it, and their
    page leads on to it.
    """
    ranked = sorted(found.tenants, key=lambda each: _weight(each, policy), reverse=True)
    if not ranked or ranked[0].num_bad == 0:
        return None
    worst = ranked[0]
    if worst.causes and worst.causes[0].subject == worst.tenant:
        least = _over(worst, policy)
        worst = next((e for e in ranked if blames(e) == worst.tenant and _over(e, policy) >= least), worst)
    if not worst.causes and _over(worst, policy) <= 1.0:
        return None
    cause = worst.causes[0] if worst.causes else None
    return Lead(
        tenant=worst.tenant,
        tier=tier_of(worst.tenant, policy),
        num=worst.num,
        num_bad=worst.num_bad,
        since=worst.since,
        cause=cause.kind.value if cause else "",
        subject=cause.subject if cause else "",
        likelihood=cause.likelihood if cause else 0.0,
        mechanism=worst.mechanism.value,
        href=f"/diagnose?tenant={quote(worst.tenant, safe='')}",
    )


def blames(found: TenantFindings) -> str:
    """The other tenant that is the likeliest cause of this one's trouble; "" where it is none, or itself."""
    cause = found.causes[0] if found.causes else None
    return cause.subject if cause and cause.kind in NEIGHBOURS and cause.subject != found.tenant else ""


def _weight(found: TenantFindings, policy: Policy) -> tuple[float, float, int]:
    likeliest = max((_sureness(cause) for cause in found.causes), default=0.0)
    return round(likeliest * min(1.0, found.num_bad / 20), 1), _over(found, policy), found.num_bad


def _sureness(cause: Cause) -> float:
    return cause.likelihood


def _over(found: TenantFindings, policy: Policy) -> float:
    """Missed ÷ what the loosest of its objectives allows to be missed."""
    tier = next((each for each in policy.tiers if each.name == tier_of(found.tenant, policy)), None)
    allowed = max((float(1 - each.target) for each in tier.objectives), default=0.01) if tier else 0.01
    return found.num_bad / max(1.0, found.num * allowed)


def tier_of(tenant: str, policy: Policy) -> str:
    """The tier of a tenant by the policy; "" where it names no such tenant."""
    return next((each.tier for each in policy.tenants if each.name == tenant), "")
