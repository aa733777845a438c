"""What judged events grant: ⌊Σ judged × (1 − τ)⌋ exactly, a part of it to the pool, the rest to the bucket."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.policy import Policy
from plimsoll.slo.budget import Grant, Judged, grant_to_date
from plimsoll.storage.batch import JudgedKey


class Account(NamedTuple):
    """Whose budget for what, and for which month."""

    tenant: str
    objective: str
    period: str

    @property
    def prefix(self) -> str:
        """How its accounts begin in entries."""
        return f"{self.tenant}/{self.objective}"


def grant_of(counts: Iterable[tuple[JudgedKey, int]], policies: Mapping[str, Policy]) -> Grant:
    """The grant to date of one account from all its judged events, in any order.

    Events judged under a policy whose text is not known grant nothing yet: unknown is not zero, and the grant comes
    when the policy does. Windows of exception grant nothing. Where the shared part changed within the month, it is
    weighed by what each policy granted.
    """
    judged: list[Judged] = []
    parts: list[tuple[Judged, Fraction]] = []
    for key, num in counts:
        if key.exception:
            continue
        policy = policies.get(key.policy)
        target = None if policy is None else target_of(policy, key)
        if policy is None or target is None:
            continue
        judged.append(Judged(num, target))
        parts.append((judged[-1], policy.service.shared_pool))
    return grant_to_date(judged, _shared(parts))


def _shared(parts: list[tuple[Judged, Fraction]]) -> Fraction:
    """The shared part of a grant. Mostly there is one, and no fractions need to be multiplied."""
    if len({part for _, part in parts}) == 1:
        return parts[0][1]
    allowed = [num * (1 - target) for (num, target), _ in parts]
    shared = [each * part for each, (_, part) in zip(allowed, parts, strict=True)]
    return sum(shared, Fraction(0)) / sum(allowed) if any(allowed) else Fraction(0)


def target_of(policy: Policy, key: JudgedKey) -> Fraction | None:
    """The target by which those events were judged; None where the policy promises no such thing."""
    for tier in policy.tiers:
        if tier.name == key.tier:
            return next((each.target for each in tier.promised if each.name == key.objective), None)
    return None


def grant_entries(account: Account, bucket: int, part: int) -> list[Entry]:
    """What moves the account by these differences: grants out of the world, or corrections back where they shrink."""
    entries = []
    for name, amount in (("bucket", bucket), ("part", part)):
        world, own = f"world/{account.objective}/{name}", f"{account.prefix}/{name}"
        if amount > 0:
            entries.append(Entry(EntryKind.GRANT, world, own, amount, account.period))
        elif amount < 0:
            entries.append(Entry(EntryKind.CORRECT, own, world, -amount, account.period))
    return entries
