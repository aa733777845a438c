"""Reads `tiers`: classes of service and the objectives promised to them."""

import re
from fractions import Fraction
from math import inf
from typing import Final

from msgspec.structs import replace

from plimsoll.policy.matrixrules import read_classes
from plimsoll.policy.objective import RUN, Objective, Origin, RunObjective, Sli
from plimsoll.policy.policy import CAPABLE, Service, Tier, UpstreamTrust
from plimsoll.policy.section import Section

DEFAULT_AVAILABILITY: Final = Objective("availability", Sli.AVAILABILITY, inf, Fraction(999, 1000))
_TIER: Final = Tier("", 0)  # its defaults
_RUN: Final = RunObjective(0.0, Fraction(0))
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def read_name(section: Section, known: dict[str, int], what: str) -> str:
    """A unique name that is fit for files, labels and accounts."""
    if not section.required("name"):
        return ""
    name = section.text("name")
    if not name:
        return ""
    if not _NAME.fullmatch(name):
        section.fault("name", f"{name[:70]!r} is no name", "letters, digits, dot, dash and underscore, at most 64")
        return ""
    if name in known:
        section.fault("name", f"{what} {name!r} is given twice, first in line {known[name]}")
        return ""
    known[name] = section.line_of("name")
    return name


def read_tiers(top: Section, service: Service) -> tuple[Tier, ...]:
    """All tiers, in the document's order."""
    if not top.required("tiers"):
        return ()
    names: dict[str, int] = {}
    ranks: dict[int, str] = {}
    tiers = [_read_tier(section, service, names, ranks) for section in top.sections("tiers")]
    if not tiers and all(fault.path != "tiers" for fault in top.faults.all):
        top.fault("tiers", "at least one tier is needed")
    shares = sum((tier.share for tier in tiers), Fraction(0))
    if shares > 1:
        top.fault("tiers", f"shares sum to {float(shares):.4g}, that is more than 100%")
    return tuple(tiers)


def _read_tier(section: Section, service: Service, names: dict[str, int], ranks: dict[int, str]) -> Tier:
    name = read_name(section, names, "tier")
    given_rank = section.required("rank")
    rank = section.whole("rank", None, least=0, most=1000)
    if given_rank and rank is not None:
        if rank in ranks:
            section.fault("rank", f"rank {rank} is {ranks[rank] or 'another tier'!r}'s already: ranks must differ")
        ranks.setdefault(rank, name)
    rolling = service.period != "month"
    tier = Tier(
        name=name,
        rank=rank or 0,
        share=section.ratio("share", _TIER.share),
        trickle=section.ratio("trickle", _TIER.trickle),
        exchange=section.ratio("exchange", Fraction(0) if rolling else _TIER.exchange),
        sheddable=section.flag("sheddable", _TIER.sheddable),
        wait=section.duration("wait", None, zero=True),
        queue_limit=section.whole("queue_limit", _TIER.queue_limit, least=0, most=10_000_000),
        queue_timeout=section.duration("queue_timeout", _TIER.queue_timeout),
        objectives=_read_objectives(section, service),
        run=_read_run(section),
        prefer=_read_preference(section),
        classes=read_classes(section),
    )
    section.done()
    if rolling and section.has("exchange") and tier.exchange > 0:
        section.fault("exchange", "budgets are exchanged at month close: a rolling service.period has none")
    return tier


def _read_preference(section: Section) -> str:
    preference = section.text("prefer")
    if preference not in {"", CAPABLE}:
        section.fault("prefer", f"{preference!r} is nothing that a tier can prefer", f"known: {CAPABLE}")
    return preference


def _read_run(tier: Section) -> RunObjective | None:
    section = tier.section("run")
    if section is None:
        return None
    given = [section.required(key) for key in ("below", "target")]
    below = section.duration("below", None)
    target = section.ratio("target", None, above=Fraction(0), below_one=True)
    idle = section.duration("idle", _RUN.idle)
    half_life = section.duration("half_life", None)
    section.done()
    return RunObjective(below, target, idle, half_life) if all(given) and below and target else None


def _read_objectives(tier: Section, service: Service) -> tuple[Objective, ...]:
    """As written, with availability (the default one where none is given) at the end."""
    names: dict[str, int] = {}
    found = []
    for section in tier.sections("objectives"):
        objective = _read_objective(section, names)
        if objective is not None:
            _doubt(section, objective, service)
            found.append(objective)
    timed = [objective for objective in found if objective.sli is not Sli.AVAILABILITY]
    available = [objective for objective in found if objective.sli is Sli.AVAILABILITY]
    if not available:
        name = "availability" if "availability" not in names else "availability-default"
        available = [replace(DEFAULT_AVAILABILITY, name=name)]
    return (*timed, *available)


def _read_objective(section: Section, names: dict[str, int]) -> Objective | None:
    has_sli, has_target = section.required("sli"), section.required("target")
    sli = section.choice("sli", Sli, None)
    below = section.duration("below", None)
    target = section.ratio("target", None, above=Fraction(0), below_one=True)
    contract = section.ratio("contract", None, above=Fraction(0), below_one=True)
    origin = section.choice("from", Origin, Origin.GATEWAY)
    name = read_name(section, names, "objective") if section.has("name") else ""
    section.text("name")
    section.done()
    if sli is Sli.RUN or name == RUN:
        section.fault("name" if name == RUN else "sli", "run is the objective of runs", "it is the tier's own key: run")
        return None
    if not has_sli or not has_target or sli is None or target is None:
        return None
    if not section.has("name"):
        name = sli.value
        if name in names:
            section.fault("sli", f"a second {sli} objective in this tier", "give it a name of its own")
            return None
        names[name] = section.line
    if contract is not None and contract >= target:
        section.fault("contract", f"{float(contract):.6g} must be looser than the target, {float(target):.6g}")
    if sli is Sli.AVAILABILITY:
        if section.has("below"):
            section.fault("below", "availability has no threshold", "remove it")
        below = inf
    elif not section.has("below"):
        section.fault("below", "missing", f"the threshold of {sli}, for example below: 800ms")
    return Objective(name, sli, inf if below is None else below, target, contract, origin)


def _doubt(section: Section, objective: Objective, service: Service) -> None:
    """Values that can be used but hardly can be meant."""
    if objective.target < Fraction(1, 2):
        section.warn("target", f"{float(objective.target):.4g} lets more than half be bad")
    if objective.origin is Origin.USER:
        if objective.sli not in {Sli.TTFT, Sli.E2E}:
            section.warn("from", f"{objective.sli} does not start at an arrival: no effect")
        elif service.upstream_time is UpstreamTrust.NONE:
            section.warn("from", "service.upstream_time is none, so nobody may report it and it counts as 0")
    plausible = {Sli.TTFT: (0.001, 600.0), Sli.ITL: (0.0005, 60.0), Sli.TPOT: (0.0005, 60.0), Sli.E2E: (0.01, 86_400.0)}
    low, high = plausible.get(objective.sli, (0.0, inf))
    if objective.below != inf and not low <= objective.below <= high:
        section.warn("below", f"{objective.below:g} s is unusual for {objective.sli}", "is the unit right?")
