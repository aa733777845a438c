"""Root causes that engines' own metrics tell: what replicas said of themselves before and while requests were slow.

Each asks for its own signal, known before and during, and for an excess where that cause would put it. A signal that
is known and did not change speaks against it: the cause is not named. One that nobody told accuses nobody (law 8).
"""

from collections.abc import Iterable
from typing import Final

from plimsoll.diagnosis.case import ACCUSE, SHARED, SLOWER, WAITING, Case, Cause, cause_of
from plimsoll.diagnosis.enginesignals import EngineSignal
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.diagnosis.timeparts import Part

FELL: Final = 0.85
"""A ratio during that is below so much of what it was has fallen."""
ADAPTER_SHARE: Final = 0.5
"""Share of slow requests with adapters from which their loading may be what made them slow."""

Pair = tuple[float | None, float | None]


def engine_causes(case: Case) -> Iterable[Cause]:
    """All of them, for all replicas."""
    for weigh in (_imbalance, _all_to_all, _acceptance, _prompt_shape, _links, _adapters, _starts, _down, _preemptions):
        yield from weigh(case)


def steps_are_slower(case: Case) -> float:
    """By how much the pace of those replicas fell that served slow requests: the greatest ratio; 1.0: not known."""
    pairs = [(each.pace_before, each.pace_during) for each in case.signals.replicas if each.num_during]
    ratios = [during / before for before, during in pairs if before and during]
    return max(ratios, default=1.0)


def _ratio(pair: Pair) -> float | None:
    before, during = pair
    return during / before if before and during is not None else None


def _fell(pair: Pair) -> bool:
    ratio = _ratio(pair)
    return ratio is not None and ratio < FELL


def _held(pair: Pair) -> bool:
    ratio = _ratio(pair)
    return ratio is not None and ratio >= FELL


def _said(pair: Pair, form: str = ".2f") -> str:
    before, during = pair
    return f"{before:{form}} before and {during:{form}} now"


def _computing(case: Case) -> float:
    """Share of the excess that slower steps bring, their queues among it."""
    return min(1.0, case.excess.share(Part.DECODE, Part.OWN_PREFILL, *SHARED))


def _strength(pair: Pair) -> float:
    """How clearly a ratio fell: 1 where a third or more of it is gone."""
    ratio = _ratio(pair)
    return 0.0 if ratio is None else max(0.0, min(1.0, (1.0 - ratio) / 0.33 + 0.3))


def _shared(case: Case, shows: list[EngineSignal]) -> str:
    """The subject: one replica where the others do not show it, else empty."""
    return shows[0].name if len(shows) == 1 and len(case.engines) > 1 else ""


def _imbalance(case: Case) -> Iterable[Cause]:
    shows = [each for each in case.engines if _fell(each.balancedness)]
    if not shows or steps_are_slower(case) < SLOWER - 0.1:
        return
    worst = min(shows, key=lambda each: _ratio(each.balancedness) or 1.0)
    told = f"experts of {worst.name}: mean load ÷ that of the busiest rank was {_said(worst.balancedness)}"
    likelihood = _computing(case) * _strength(worst.balancedness)
    yield cause_of(CauseKind.EXPERT_IMBALANCE, _shared(case, shows), (likelihood, (told,), ()))


def _all_to_all(case: Case) -> Iterable[Cause]:
    """Experts are as balanced as before, and the GPUs' memory has less to do in a step: the rest is the way."""
    shows = [each for each in case.engines if _fell(each.memory_active) and _held(each.balancedness)]
    if not shows or steps_are_slower(case) < SLOWER - 0.1 or any(_fell(each.sm_clock) for each in shows):
        return
    worst = min(shows, key=lambda each: _ratio(each.memory_active) or 1.0)
    told = [
        f"memory of {worst.name}'s GPUs was busy {_said(worst.memory_active, '.0%')}: steps wait for something else",
        f"experts are balanced as before ({_said(worst.balancedness)})",
    ]
    if _ratio(worst.nvlink_rate) is not None:
        told.append(f"NVLink carried {(_ratio(worst.nvlink_rate) or 0.0):.1f} times the bytes a second of before")
    likelihood = _computing(case) * _strength(worst.memory_active)
    yield cause_of(CauseKind.ALL_TO_ALL, _shared(case, shows), (likelihood, tuple(told), ()))


def _acceptance(case: Case) -> Iterable[Cause]:
    shows = [each for each in case.engines if _fell(each.acceptance)]
    if not shows or steps_are_slower(case) < 1.1:
        return
    worst = min(shows, key=lambda each: _ratio(each.acceptance) or 1.0)
    told = (f"of draft tokens on {worst.name} {_said(worst.acceptance, '.0%')} were right",)
    likelihood = _computing(case) * _strength(worst.acceptance)
    against: tuple[str, ...] = ()
    changed = _changed_prompts(case)
    if changed is not None:
        against = (f"{changed[0]}'s prompts repeat themselves otherwise than before: it may be their shape",)
        likelihood *= 0.6
    yield cause_of(CauseKind.SPECULATION_COLLAPSE, _shared(case, shows), (likelihood, told, against))


def _changed_prompts(case: Case) -> tuple[str, float] | None:
    """The tenant whose prompts' repetition changed most, and by how many bits a byte."""
    found = [(each.name, each.entropy) for each in case.signals.tenants if each.entropy is not None]
    changed = [(name, by) for name, by in found if abs(by) >= 0.75]
    return max(changed, key=lambda item: abs(item[1]), default=None)


def _prompt_shape(case: Case) -> Iterable[Cause]:
    """Prompts of another kind: of a tenant's own where it is the victim, whoever else shares its drafts."""
    changed = _changed_prompts(case)
    if changed is None:
        return
    name, by = changed
    more = "less" if by > 0 else "more"
    told = [f"{name}'s prompts repeat themselves {more} than before ({by:+.1f} bits a byte)"]
    falls = [each for each in case.engines if _fell(each.acceptance)]
    share = case.excess.share(Part.DECODE, Part.OWN_PREFILL, Part.OTHERS_PREFILL)
    if falls:
        told.append(f"fewer draft tokens are right ({_said(falls[0].acceptance, '.0%')})")
        share = max(share, min(1.0, _computing(case) + case.excess.share(Part.UNKNOWN)))
    yield cause_of(CauseKind.PROMPT_SHAPE, name, (share * (1.0 if falls else 0.6), tuple(told), ()))


def _links(case: Case) -> Iterable[Cause]:
    """KV comes up more slowly than before, and more time goes into that."""
    shows = [each for each in case.engines if _fell(each.load_speed) and (_ratio(each.loading) or 9.0) > 1.2]
    if not shows:
        return
    worst = min(shows, key=lambda each: _ratio(each.load_speed) or 1.0)
    told = [f"KV came up to {worst.name} at {(_ratio(worst.load_speed) or 0.0):.0%} of the speed of before"]
    rate = _ratio(worst.pcie_rate)
    if rate is not None:
        told.append(f"PCIe carried {rate:.1f} times the bytes a second of before")
    likelihood = case.excess.share(*WAITING, Part.STALL, Part.UNKNOWN, Part.OWN_PREFILL) * _strength(worst.load_speed)
    yield cause_of(CauseKind.LINK_CONTENTION, _shared(case, shows), (likelihood, tuple(told), ()))


def _adapters(case: Case) -> Iterable[Cause]:
    """More loads or more waiting for adapters, and slow requests are those that need one."""
    shows = [each for each in case.engines if _rose(each.adapter_loads) or _rose(each.adapters_waiting)]
    if not shows or case.adapter_share < ADAPTER_SHARE:
        return
    worst = max(shows, key=lambda each: each.adapter_loads[1] or each.adapters_waiting[1] or 0.0)
    if worst.adapter_loads[1] is not None:
        told = f"{worst.name} loaded {60 * worst.adapter_loads[1]:.0f} adapters a minute"
        told += f", {60 * worst.adapter_loads[0]:.0f} before" if worst.adapter_loads[0] is not None else ""
    else:
        told = f"{worst.adapters_waiting[1]:.1f} adapters waited on {worst.name} on average"
    evidence = (told, f"{case.adapter_share:.0%} of slow requests need an adapter")
    likelihood = case.excess.share(*WAITING, Part.STALL, Part.UNKNOWN) * (1.0 - case.attributed * 0.5)
    yield cause_of(CauseKind.ADAPTER_LOADING, _shared(case, shows), (likelihood, evidence, ()))


def _rose(pair: Pair) -> bool:
    before, during = pair
    return during is not None and during > 0.0 and (before is None or during >= 1.5 * before)


def _starts(case: Case) -> Iterable[Cause]:
    """A replica began anew, or loaded its model, and slow requests are those that it got."""
    for each in case.engines:
        share = max(case.by_replica.get(each.name, 0.0), case.unserved)
        if not each.num_starts or share < 0.3:
            continue
        told = [f"{each.name} was started, or loaded its model, {each.num_starts} times in this time"]
        told.append(f"{share:.0%} of slow requests ran there, or were refused while no replica was up")
        if each.num_failed_loads:
            told.append(f"{each.num_failed_loads} loads failed")
        waited = case.excess.share(*WAITING, Part.STALL, Part.UNKNOWN, Part.OWN_PREFILL)
        likelihood = max(waited, case.failed_share, case.unserved) * min(1.0, share / 0.6)
        yield cause_of(CauseKind.COLD_START, each.name, (likelihood, tuple(told), ()))


def _down(case: Case) -> Iterable[Cause]:
    """A replica was not up, while others were, and what they have to take is what others wait for."""
    for each in case.engines:
        if (each.down >= 0.25 and len(case.engines) > 1) or (each.down > 0.0 and case.unserved >= ACCUSE):
            told = [f"{each.name} was down at {each.down:.0%} of the looks at it"]
            told += [f"{case.unserved:.0%} of the bad requests were refused while no replica was up"] * bool(
                case.unserved
            )
            share = max(case.failed_share, case.unserved, case.excess.share(*SHARED, Part.DECODE))
            again = (f"it was started again {each.num_starts} times",) if each.num_starts else ()
            share *= min(1.0, 0.5 + each.down) * (0.7 if again else 1.0)
            yield cause_of(CauseKind.REPLICA_LOST, each.name, (share, tuple(told), again))


def _preemptions(case: Case) -> Iterable[Cause]:
    shows = [each for each in case.engines if (each.preemptions[1] or 0.0) > 0.02 and _rose(each.preemptions)]
    share = case.excess.share(Part.KV_PRESSURE, Part.STALL, Part.ENGINE_QUEUE, Part.GATEWAY_QUEUE)
    if not shows:
        return
    worst = max(shows, key=lambda each: each.preemptions[1] or 0.0)
    per_minute = 60 * (worst.preemptions[1] or 0.0)
    told = f"{worst.name} preempted {per_minute:.0f} requests a minute, {60 * (worst.preemptions[0] or 0.0):.0f} before"
    likelihood = share * min(1.0, per_minute / 20)
    yield cause_of(CauseKind.PREEMPTION_STORM, _shared(case, shows), (likelihood, (told,), ()))
