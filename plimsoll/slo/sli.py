"""How an ended request is judged against its objectives (DESIGN, "Objectives", the table).

| what happened | ttft | itl | tpot | e2e | availability |
|---|---|---|---|---|---|
| completed | judged | by token | judged | judged | good |
| the client's or the tenant's own doing | excluded | excluded | excluded | excluded | excluded |
| refused, shed or expired by us | bad | excluded | excluded | bad | bad |
| failed, evicted, interrupted after dispatch | judged if a token came or bad | tokens that came | judged | bad | bad |
| client left | judged if a token came or by threshold | tokens that came | judged | by threshold | excluded |

"By threshold": bad where the client waited longer than it, else censored. Where nothing was generated, itl and tpot
are excluded: that is availability's business.

Runs on every request: constants are shared, and nothing is computed that no objective asks for.
"""

from math import inf
from typing import Final

from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.slo.charge import charge
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import REASONS, Blame, Outcome, Reason
from plimsoll.slo.timing import bucket_of
from plimsoll.slo.verdict import Charge, Facts, Judgement, Verdict

__all__ = ["Charge", "Facts", "Judgement", "Verdict", "itl_thresholds", "judge"]

# Members bound once: through its class each costs 0.18 µs on CPython 3.11, and this runs on every request.
_COMPLETED: Final = Outcome.COMPLETED
_EXPIRED: Final = Outcome.EXPIRED
_DEADLINE: Final = Reason.DEADLINE
_TTFT: Final = Sli.TTFT
_ITL: Final = Sli.ITL
_E2E: Final = Sli.E2E
_AVAILABILITY: Final = Sli.AVAILABILITY
_GOOD: Final = Judgement.GOOD
_BAD: Final = Judgement.BAD
_CENSORED: Final = Judgement.CENSORED
_EXCLUDED: Final = Judgement.EXCLUDED
_NONE: Final = Blame.NONE
_CLIENT: Final = Blame.CLIENT
_TENANT: Final = Blame.TENANT
_LEFT: Final = Blame.LEFT
_GATEWAY: Final = Origin.GATEWAY
_USER: Final = Origin.USER

_good_by_name: dict[str, Verdict] = {}
_excluded_by_name: dict[str, Verdict] = {}
_censored_by_name: dict[str, Verdict] = {}
_ours_by_name: dict[str, Verdict] = {}


def itl_thresholds(objectives: tuple[Objective, ...]) -> tuple[float, ...]:
    """The thresholds that a `TokenClock` must count for these objectives, in the order that `judge` expects."""
    return tuple([o.below for o in objectives if o.sli is _ITL])


def judge(objectives: tuple[Objective, ...], facts: Facts) -> tuple[Verdict, ...]:
    """One verdict an objective, in their order."""
    blame = _NONE if facts.outcome is _COMPLETED else REASONS[facts.reason].blame
    if _is_excluded(facts, blame):
        return tuple([_constant(_excluded_by_name, o.name, _EXCLUDED) for o in objectives])
    left = blame is _LEFT
    verdicts: list[Verdict] = []
    itl_index = 0
    for objective in objectives:
        sli = objective.sli
        if sli is _AVAILABILITY:
            verdicts.append(_availability(objective.name, facts.outcome, left))
        elif sli is _E2E:
            verdicts.append(_e2e(objective, facts, left))
        elif not facts.generative or not (facts.streaming or facts.judge_non_streaming):
            verdicts.append(_constant(_excluded_by_name, objective.name, _EXCLUDED))
        elif sli is _TTFT:
            verdicts.append(_ttft(objective, facts, left))
        elif sli is _ITL:
            verdicts.append(_itl(objective, facts, itl_index))
        else:
            verdicts.append(_tpot(objective, facts))
        if sli is _ITL:
            itl_index += 1
    return tuple(verdicts)


def _is_excluded(facts: Facts, blame: Blame) -> bool:
    """The client's own fault, the tenant's own limits, or a deadline that no engine could have met."""
    if blame is _CLIENT or blame is _TENANT:
        return True
    return facts.infeasible_deadline and facts.outcome is _EXPIRED and facts.reason is _DEADLINE


def _availability(name: str, outcome: Outcome, left: bool) -> Verdict:
    if outcome is _COMPLETED:
        return _constant(_good_by_name, name, _GOOD)
    if left:
        return _constant(_excluded_by_name, name, _EXCLUDED)
    return _constant(_ours_by_name, name, _BAD)


def _ttft(objective: Objective, facts: Facts, left: bool) -> Verdict:
    first_at = facts.timing.first_token_at
    if first_at > 0.0:
        return _measured(objective, facts, first_at - facts.arrived_at)
    if facts.outcome is _COMPLETED:  # an answer in one piece, or an empty one: known when it ended
        return _measured(objective, facts, facts.ended_at - facts.arrived_at)
    if left:
        return _cut_short(objective, facts)
    return _bad(objective, facts, inf)


def _e2e(objective: Objective, facts: Facts, left: bool) -> Verdict:
    if facts.outcome is _COMPLETED:
        last_at = facts.timing.last_token_at
        end_at = last_at if last_at > 0.0 else facts.ended_at
        return _measured(objective, facts, end_at - facts.arrived_at)
    if left:
        return _cut_short(objective, facts)
    return _bad(objective, facts, inf)


def _itl(objective: Objective, facts: Facts, index: int) -> Verdict:
    timing = facts.timing
    num = num_gaps(timing)
    if num == 0 or facts.num_choices > 1:
        return _constant(_excluded_by_name, objective.name, _EXCLUDED)
    bad = timing.itl_bad[index] if index < len(timing.itl_bad) else num_gaps_above(timing, objective.below)
    if bad == 0:
        return Verdict(objective.name, _GOOD, num, 0)
    return Verdict(objective.name, _BAD, num - bad, bad, Charge.OURS)


def _tpot(objective: Objective, facts: Facts) -> Verdict:
    timing = facts.timing
    if timing.num_tokens < 2 or facts.num_choices > 1 or timing.first_token_at <= 0.0:
        return _constant(_excluded_by_name, objective.name, _EXCLUDED)
    tpot = (timing.last_token_at - timing.first_token_at) / (timing.num_tokens - 1)
    if tpot <= objective.below:
        return _constant(_good_by_name, objective.name, _GOOD)
    return _constant(_ours_by_name, objective.name, _BAD)


def _measured(objective: Objective, facts: Facts, own_time: float) -> Verdict:
    value = own_time
    if objective.origin is _USER and facts.upstream_time is not None:
        value += facts.upstream_time
    if value <= objective.below:
        return _constant(_good_by_name, objective.name, _GOOD)
    return _bad(objective, facts, own_time)


def _cut_short(objective: Objective, facts: Facts) -> Verdict:
    """The client left at `ended_at` without what this objective waits for: by then it was late, or nobody knows."""
    elapsed = facts.ended_at - facts.arrived_at
    value = elapsed
    if objective.origin is _USER and facts.upstream_time is not None:
        value += facts.upstream_time
    if value > objective.below:
        return _bad(objective, facts, elapsed)
    return _constant(_censored_by_name, objective.name, _CENSORED)


def _bad(objective: Objective, facts: Facts, own_time: float) -> Verdict:
    if objective.origin is _GATEWAY:
        return _constant(_ours_by_name, objective.name, _BAD)
    account = charge(
        objective.below,
        facts.upstream_time,
        own_time,
        _baseline(objective, facts),
        facts.upstream_baseline,
        trusted=facts.upstream_trusted,
    )
    return Verdict(objective.name, _BAD, 0, 1, account)


def _baseline(objective: Objective, facts: Facts) -> float | None:
    """Our usual own time for a request like this; for e2e it grows with the output that came."""
    if objective.sli is _TTFT or facts.baseline_ttft is None:
        return facts.baseline_ttft
    further = max(0, facts.timing.num_tokens - 1)
    if further == 0:
        return facts.baseline_ttft
    return None if facts.baseline_tpot is None else facts.baseline_ttft + further * facts.baseline_tpot


def num_gaps(timing: Timing) -> int:
    """Gaps between tokens that were counted, zeros included."""
    num = 0
    for sketch in timing.sketches:
        num += sketch.num_zero
        if sketch.buckets:
            num += sum(sketch.buckets.values())
    return num


def num_gaps_above(timing: Timing, threshold: float) -> int:
    """Gaps above a threshold that was not counted exactly (the policy changed meanwhile), from the sketches.

    A gap in the threshold's own bucket counts as below it, so the answer is never too many.
    """
    edge = bucket_of(threshold)
    return sum(num for sketch in timing.sketches for index, num in sketch.buckets.items() if index > edge)


def _constant(known: dict[str, Verdict], name: str, judgement: Judgement) -> Verdict:
    """The same frozen verdict for every request that earns it; a bad one of this kind is always ours."""
    verdict = known.get(name)
    if verdict is None:
        bad = judgement is _BAD
        good = judgement is _GOOD
        verdict = known[name] = Verdict(name, judgement, int(good), int(bad), Charge.OURS if bad else None)
    return verdict
