"""Root causes: each candidate weighed by how much of the excess it explains and how clearly its own signal shows.

likelihood = share of the excess in the parts that this cause lengthens × strength of the signal that only it gives.
A cause whose signal is missing from the log (an engine's own metrics, say) is not accused: its absence is told. What
engines' own metrics tell is in `enginecauses.py`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from plimsoll.diagnosis.case import ACCUSE, MORE, SHARED, SLOWER, Case, Cause, cause_of
from plimsoll.diagnosis.enginecauses import engine_causes
from plimsoll.diagnosis.growth import (
    MISSING,
    added_share,
    growth,
    has_longer_prompts,
    lost_hits,
    one_alone_grew,
    sent_share,
    usual_growth,
)
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.diagnosis.signals import ReplicaSignal, TenantSignal
from plimsoll.diagnosis.timeparts import Part

LONGER: Final = 1.4
"""Prompts, or answers, so many times as long as before are longer."""


def causes(case: Case) -> tuple[Cause, ...]:
    """Those worth naming, the likeliest first."""
    found = [cause for weigh in _CANDIDATES for cause in weigh(case)]
    named = [cause for cause in found if cause.likelihood >= ACCUSE]
    return tuple(sorted(named, key=lambda cause: (-cause.likelihood, cause.kind, cause.subject)))


# --- other tenants ---------------------------------------------------------------------------------------------------


def _neighbours(case: Case) -> Iterable[Cause]:
    waited = case.crowded
    for name, share in case.culprits.items():
        signal = case.signals.tenant(name)
        if name == case.victim or signal is None or share * waited < ACCUSE / 2:
            continue
        told = (
            f"{share:.0%} of the extra waiting was behind {name}'s requests",
            f"waiting and others' prompts are {waited:.0%} of what slow requests took longer",
        )
        grew = growth(signal, usual_growth(case, name, "prompt_rate"))
        longer = has_longer_prompts(case, signal)
        if case.victim and not longer and not _may_be_a_surge(case, signal, grew[0]):
            continue
        kind = CauseKind.NEIGHBOUR_LONG_PROMPTS if longer else CauseKind.NEIGHBOUR_SURGE
        strength = min(1.0, 0.55 + 0.45 * grew[0]) if case.victim else grew[0]
        yield cause_of(
            kind, name, (waited * case.attributed * min(1.0, share / 0.6) * strength, (*told, *grew[1]), grew[2])
        )


def _may_be_a_surge(case: Case, signal: TenantSignal, grew: float) -> bool:
    """Whether a neighbour sends more than before, and than all do; where nothing is known of before, most of all."""
    unknown = signal.prompt_rate is None and not signal.appeared
    return sent_share(case, signal) >= 0.5 if unknown else grew > 0.0


# --- the tenant itself -----------------------------------------------------------------------------------------------


def _itself(case: Case) -> Iterable[Cause]:
    signal = case.signals.tenant(case.victim) if case.victim else None
    if signal is None:
        return
    own = case.culprits.get(case.victim, 0.0)
    waited, mix = case.excess.share(*SHARED), case.excess.mix_share
    if signal.prompt is not None and signal.prompt >= LONGER:
        share = min(1.0, mix + case.excess.share(Part.OWN_PREFILL) + waited * own)
        told = f"its prompts are {signal.prompt:.1f} times as long as before"
        yield cause_of(CauseKind.OWN_LONGER_PROMPTS, case.victim, (share, (told, f"length explains {mix:.0%}"), ()))
    if signal.output is not None and signal.output >= LONGER:
        told = f"its answers are {signal.output:.1f} times as long as before"
        beyond = signal.output / usual_growth(case, case.victim, "output") - 1.0
        share = mix * (0.5 + 0.5 * max(0.0, min(1.0, beyond / (LONGER - 1.0))))  # everybody's are: half its own doing
        yield cause_of(CauseKind.OWN_LONGER_ANSWERS, case.victim, (share, (told, f"length explains {mix:.0%}"), ()))
    yield from _surge(case, signal, own)


def _surge(case: Case, signal: TenantSignal, own: float) -> Iterable[Cause]:
    """Waiting for itself, or for others who send what they always did while it sends more."""
    added = added_share(case, case.victim)
    if signal.rate is not None and signal.rate >= 1.5 and max(own, added) > 0.0:
        beyond = max(0.0, min(1.0, signal.rate / usual_growth(case, case.victim) - 1.0))
        told = f"it sends {signal.rate:.1f} times the requests of before, and {own:.0%} of the waiting is for itself"
        more = f"of the prompt tokens a second that were added {added:.0%} are its own"
        share = case.crowded * min(1.0, max(own, added) / 0.6) * beyond
        yield cause_of(CauseKind.OWN_SURGE, case.victim, (share, (told, more), ()))


# --- engines ---------------------------------------------------------------------------------------------------------


def _pressure(case: Case) -> Iterable[Cause]:
    share = case.excess.share(Part.KV_PRESSURE)
    if _answers_of_all_grew(case):
        share /= max(share, 1.0 - case.excess.mix_share)
    if share >= ACCUSE:
        told = f"{share:.0%} of the excess is waiting for KV blocks, or was lost to preemption"
        yield cause_of(CauseKind.KV_EXHAUSTION, "", (min(1.0, 1.3 * share), (told,), ()))


def _answers_of_all_grew(case: Case) -> bool:
    """Whether the victim's answers grew no more than others': what fills the blocks is then not its length alone."""
    signal = case.signals.tenant(case.victim) if case.victim else None
    if signal is None or signal.output is None:
        return False
    usual = usual_growth(case, case.victim, "output")
    return usual >= MORE and signal.output < LONGER * usual


def _misses(case: Case) -> Iterable[Cause]:
    prefill = case.excess.share(Part.OWN_PREFILL, Part.OTHERS_PREFILL, Part.ENGINE_QUEUE, Part.GATEWAY_QUEUE)
    prefill += case.excess.mix_share
    for signal in case.signals.tenants:
        lost = lost_hits(signal)
        if lost >= MISSING:
            told = f"{signal.name}'s prompts found {signal.hits_before:.0f} tokens each in the prefix cache, "
            told += f"and {signal.hits:.0f} now"
            yield cause_of(CauseKind.CACHE_MISSES, signal.name, (min(1.0, prefill) * min(1.0, 1.2 * lost), (told,), ()))


def _replicas(case: Case) -> Iterable[Cause]:
    for signal in case.signals.replicas:
        others = [each for each in case.signals.replicas if each.name != signal.name and each.num_during]
        yield from _slow(case, signal, others)
        yield from _stalled(case, signal)
        if signal.num_during and signal.failed >= max(5, 0.2 * signal.num_during):
            told = f"{signal.name} failed {signal.failed} of {signal.num_during} requests"
            yield cause_of(CauseKind.REPLICA_FAILED, signal.name, (min(1.0, 1.5 * case.failed_share), (told,), ()))
        if signal.num_before >= 20 and not signal.num_during and others:
            told = f"{signal.name} served {signal.num_before} requests before and none since"
            yield cause_of(CauseKind.REPLICA_LOST, signal.name, (max(case.failed_share, case.excess.share(*SHARED)),
                                                               (told,), ()))  # fmt: skip


def _slow(case: Case, signal: ReplicaSignal, others: list[ReplicaSignal]) -> Iterable[Cause]:
    pace = signal.pace_during
    usual = [each.pace_during for each in others if each.pace_during is not None]
    if pace is None or not usual or pace < SLOWER * max(*usual, signal.pace_before or 0.0):
        return  # as slow as the others, or as it was itself: a full batch is a little slower than the model says
    share = case.by_replica.get(signal.name, 0.0)
    told = f"steps of {signal.name} take {pace:.1f} times what the model says, of the others {max(usual):.1f}"
    fair = 1.0 / (1 + len(others))
    strength = min(1.0, max(0.0, (share - fair) / max(1e-9, 0.75 - fair)) + 0.3)
    yield cause_of(
        CauseKind.SLOW_REPLICA, signal.name, (strength, (told, f"{share:.0%} of slow requests ran there"), ())
    )


def _stalled(case: Case, signal: ReplicaSignal) -> Iterable[Cause]:
    share = case.by_replica.get(signal.name, 0.0)
    stalled = case.share_with_queue(Part.STALL)
    if share >= 0.7 and stalled >= 0.2:
        told = f"{share:.0%} of slow requests ran on {signal.name}; {stalled:.0%} of the excess lies in times in "
        told += "which it gave no sign of life, or behind requests that it kept then"
        likelihood = min(1.0, 1.2 * (stalled + case.excess.share(Part.UNKNOWN)))
        yield cause_of(CauseKind.STALLED_REPLICA, signal.name, (likelihood, (told,), ()))


def _engines(case: Case) -> Iterable[Cause]:
    """All replicas slower than they were: one of several causes that only the engines' own metrics tell apart.

    Prompts that must be computed anew lengthen prefill and queues, and make steps look a little slower than they are:
    what the prefix cache lost is not the engines' doing.
    """
    pairs = [(r.pace_during, r.pace_before) for r in case.signals.replicas if r.num_during]
    known = [(during, before) for during, before in pairs if during is not None and before is not None]
    if not known or not all(during >= SLOWER * before for during, before in known):
        return
    worst = max(during / before for during, before in known)
    waited = case.excess.share(Part.OWN_PREFILL) + case.excess.share(*SHARED) * (1.0 - _grown(case))
    share = case.excess.share(Part.DECODE) + waited * (1.0 - max(map(lost_hits, case.signals.tenants), default=0.0))
    told = f"every replica's steps take up to {worst:.1f} times as long as before"
    if case.engines and all(each.num_starts for each in case.engines):
        anew = "every replica was started anew at that time"
        yield cause_of(CauseKind.CHANGED_ENGINE, "", (share, (told, anew), ()))
    unknown = "precision, experts, drafts, links: the engines' own metrics would tell which, and are not in this log"
    shown = "experts, drafts and links are as they were, as far as the engines tell"
    yield cause_of(CauseKind.SLOWER_ENGINES, "", (0.9 * share, (told,), (shown if case.engines else unknown,)))


def _grown(case: Case) -> float:
    """How much of the waiting lies behind somebody who sends more than before: that is not the engines' doing."""
    shares = [
        share * growth(signal)[0] * case.attributed
        for name, share in case.culprits.items()
        if (signal := case.signals.tenant(name)) is not None
    ]
    return min(1.0, sum(shares))


# --- outside ---------------------------------------------------------------------------------------------------------


def _outside(case: Case) -> Iterable[Cause]:
    for kind, part, words in (
        (CauseKind.UPSTREAM, Part.UPSTREAM, "was spent before the request reached us, as its headers say"),
        (CauseKind.SLOW_CLIENT, Part.CLIENT, "is time for which the client did not take what was ready"),
        (CauseKind.STALLS, Part.STALL, "is one long silence within an answer"),
        (CauseKind.NETWORK, Part.UNKNOWN, "nothing in the log explains: network, front end of the engine, cold start"),
    ):
        share = case.share_with_queue(part)
        weight = 0.8 if kind in {CauseKind.NETWORK, CauseKind.STALLS} else 1.2
        if share >= ACCUSE:
            told, against = _paths(case) if kind in {CauseKind.NETWORK, CauseKind.SLOW_CLIENT} else ((), ())
            weight *= 1.2 if told else 1.0
            if case.behind.get(part, 0.0) >= 0.05:
                told = (f"{case.behind[part]:.0%} of it in our queue, for places that such requests held", *told)
            found = (min(1.0, weight * share), (f"{share:.0%} of the excess {words}", *told), against)
            yield cause_of(kind, "", found)


def _paths(case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the kernel says of the ways to engines and clients: evidence where they are worse, else against."""
    told: list[str] = []
    against: list[str] = []
    for name, path in (("engines", case.signals.engine_path), ("clients", case.signals.client_path)):
        if path is None:
            continue
        worse = path.rtt_ratio >= 2.0 or path.retransmits >= max(0.1, 2.0 * path.retransmits_before)
        words = f"round trips to {name} are {path.rtt_ratio:.1f} times those of before, and "
        words += f"{path.retransmits:.2f} segments a request are sent again ({path.retransmits_before:.2f} before)"
        (told if worse else against).append(words)
    return tuple(told), tuple(against)


def _overload(case: Case) -> Iterable[Cause]:
    waited = case.crowded
    load = case.signals.load
    top = max(case.culprits.values(), default=0.0)
    if load is not None and load >= MORE and waited >= ACCUSE and not one_alone_grew(case):
        told = f"{load:.1f} times the tokens a second of before, from several tenants"
        spread = max(0.0, 1.0 - top)
        yield cause_of(
            CauseKind.OVERLOAD, "", (waited * min(1.0, 1.6 * (load - 1.0)) * min(1.0, 1.4 * spread), (told,), ())
        )


_CANDIDATES: Final[tuple[Callable[[Case], Iterable[Cause]], ...]] = (
    _neighbours, _itself, _pressure, _misses, _replicas, _engines, engine_causes, _outside, _overload,
)  # fmt: skip
