"""A diagnosis as values for people and JSON: plain numbers and texts, no arrays."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.diagnosis.case import Cause
from plimsoll.diagnosis.crowding import Crowding, crowding
from plimsoll.diagnosis.diagnose import Diagnosis, Mechanism, diagnose
from plimsoll.diagnosis.enginesignals import States
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.shift import Change
from plimsoll.diagnosis.timeparts import COLUMN, HOW, PARTS, Part
from plimsoll.diagnosis.visits import Visits
from plimsoll.engine.profile import EngineProfile

MAX_TENANTS: Final = 8
"""Tenants diagnosed when none is named: those that missed most."""


class PartExcess(Struct, frozen=True):
    """Mean s that a slow request spent more in a part than a like one, and how the part is known."""

    part: str
    seconds: float
    how: str


class TenantFindings(Struct, frozen=True):
    """The three steps for one tenant. `num_slow` requests were compared with `compared` ones."""

    tenant: str
    num: int
    num_bad: int
    since: float | None
    until: float | None
    changes: tuple[Change, ...]
    waited_for: dict[str, float]  # share of what slow requests waited more, by the tenant for whose requests
    num_slow: int
    compared: str
    excess: tuple[PartExcess, ...]
    longer: float  # mean s a slow request took more because it was longer
    mechanism: Mechanism
    causes: tuple[Cause, ...]
    notes: tuple[str, ...]


class Matrix(Struct, frozen=True):
    """Seconds that requests of `victims[i]` waited because of `culprits[j]`."""

    victims: tuple[str, ...]
    culprits: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...]


class Findings(Struct, frozen=True):
    """All of a window."""

    source: str
    num: int
    first_arrival: float | None
    last_arrival: float | None
    crowding: Matrix
    tenants: tuple[TenantFindings, ...]
    unknown_ratio: float | None  # share of all requests' time that no part explains
    policy_versions: tuple[str, ...]


def findings(
    visits: Visits,
    profiles: Mapping[str, EngineProfile],
    tenant: str = "",
    source: str = "",
    states: States | None = None,
) -> Findings:
    """The findings about one tenant, or about those that missed objectives, the worst first."""
    parts = time_parts(visits, profiles)
    total = float(parts.total.sum())
    names = [tenant] if tenant else _worst(visits)
    return Findings(
        source=source,
        num=visits.num,
        first_arrival=float(visits.arrived[0]) if visits.num else None,
        last_arrival=float(visits.arrived[-1]) if visits.num else None,
        crowding=_matrix(crowding(visits, parts)),
        tenants=tuple([_tenant(diagnose(visits, profiles, name, parts, states)) for name in names]),
        unknown_ratio=float(parts.seconds[:, COLUMN[Part.UNKNOWN]].sum()) / total if total > 0.0 else None,
        policy_versions=visits.policy_version.names,
    )


def _worst(visits: Visits) -> list[str]:
    counts = np.bincount(visits.tenant.codes[visits.broke], minlength=len(visits.tenant.names))
    ranked = sorted(zip(counts.tolist(), visits.tenant.names, strict=True), key=lambda item: (-item[0], item[1]))
    return [name for num, name in ranked if num and name][:MAX_TENANTS]


def _matrix(found: Crowding) -> Matrix:
    rows = [tuple(round(value, 6) for value in row) for row in found.seconds.tolist()]
    return Matrix(found.victims, found.culprits, tuple(rows))


def _tenant(found: Diagnosis) -> TenantFindings:
    excess = [
        PartExcess(part.value, float(value), HOW[part])
        for part, value in zip(PARTS, found.excess.like, strict=True)
        if abs(value) >= 0.001
    ]
    return TenantFindings(
        tenant=found.tenant,
        num=found.num,
        num_bad=found.num_bad,
        since=found.since,
        until=found.until,
        changes=found.changes,
        waited_for={name: round(share, 4) for name, share in found.culprits.items() if share >= 0.005},
        num_slow=found.excess.num,
        compared=found.excess.compared,
        excess=tuple(sorted(excess, key=lambda each: -each.seconds)),
        longer=max(0.0, float(found.excess.mix.sum())),
        mechanism=found.mechanism,
        causes=found.causes,
        notes=found.notes,
    )
