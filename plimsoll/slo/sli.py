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

Time during which the client held its answer back is no part of ttft, itl and tpot. It is part of e2e, but a breach that
would have been none without it is charged to the client.

Runs on every request, most of which complete: those take a path of their own without calls, and the verdicts that are
the same for all requests are made once for each tuple of objectives.
"""

from math import inf
from typing import Final

from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.slo.charge import charge
from plimsoll.slo.facts import Facts
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import REASONS, Blame, Outcome, Reason
from plimsoll.slo.timing import bucket_of
from plimsoll.slo.verdict import Charge, Judgement, Verdict

__all__ = ["Charge", "Facts", "Judgement", "Verdict", "itl_thresholds", "judge"]

# Members bound once: through its class each costs 0.18 µs on CPython 3.11, and this runs on every request.
_COMPLETED: Final = Outcome.COMPLETED
_EXPIRED: Final = Outcome.EXPIRED
_DEADLINE: Final = Reason.DEADLINE
_GOOD: Final = Judgement.GOOD
_BAD: Final = Judgement.BAD
_CLIENT: Final = Blame.CLIENT
_TENANT: Final = Blame.TENANT
_LEFT: Final = Blame.LEFT
_OURS: Final = Charge.OURS
_Verdict: Final = Verdict

_TTFT: Final = 0
_ITL: Final = 1
_TPOT: Final = 2
_E2E: Final = 3
_AVAILABILITY: Final = 4
_KINDS: Final = {
    Sli.TTFT: _TTFT,
    Sli.ITL: _ITL,
    Sli.TPOT: _TPOT,
    Sli.E2E: _E2E,
    Sli.AVAILABILITY: _AVAILABILITY,
}


class Step:
    """One objective made ready for judging: plain fields, and the verdicts that need no figures of the request."""

    def __init__(self, objective: Objective, itl_index: int) -> None:
        name = objective.name
        self.kind: int = _KINDS[objective.sli]
        self.name: str = name
        self.below: float = objective.below
        self.from_user: bool = objective.origin is Origin.USER
        self.itl_index: int = itl_index  # its place in `Timing.itl_bad`
        self.good: Verdict = Verdict(name, _GOOD, 1, 0)
        self.ours: Verdict = Verdict(name, _BAD, 0, 1, _OURS)
        self.censored: Verdict = Verdict(name, Judgement.CENSORED, 0, 0)
        self.excluded: Verdict = Verdict(name, Judgement.EXCLUDED, 0, 0)


_MOST_STEPS: Final = 1024
_steps: Final[dict[int, tuple[tuple[Objective, ...], list[Step]]]] = {}
"""By identity: a policy's tiers hold one tuple each for as long as the policy lives."""


def itl_thresholds(objectives: tuple[Objective, ...]) -> tuple[float, ...]:
    """The thresholds that a `TokenClock` must count for these objectives, in the order that `judge` expects."""
    return tuple([o.below for o in objectives if o.sli is Sli.ITL])


def judge(objectives: tuple[Objective, ...], facts: Facts) -> tuple[Verdict, ...]:
    """One verdict an objective, in their order."""
    steps = _steps_of(objectives)
    if facts.outcome is _COMPLETED:
        return _judge_completed(steps, facts)
    blame = REASONS[facts.reason].blame
    if blame is _CLIENT or blame is _TENANT or _is_infeasible(facts):
        return tuple([step.excluded for step in steps])
    left = blame is _LEFT
    streamed = facts.generative and (facts.streaming or facts.judge_non_streaming)
    return tuple([_judge_broken(step, facts, left, streamed) for step in steps])


def _steps_of(objectives: tuple[Objective, ...]) -> list[Step]:
    known = _steps.get(id(objectives))
    if known is not None and known[0] is objectives:
        return known[1]
    steps: list[Step] = []
    itl_index = 0
    for objective in objectives:
        steps.append(Step(objective, itl_index))
        if objective.sli is Sli.ITL:
            itl_index += 1
    if len(_steps) >= _MOST_STEPS:
        _steps.clear()
    _steps[id(objectives)] = (objectives, steps)
    return steps


def _judge_completed(steps: list[Step], facts: Facts) -> tuple[Verdict, ...]:
    timing = facts.timing
    arrived_at = facts.arrived_at
    streamed = facts.generative and (facts.streaming or facts.judge_non_streaming)
    upstream = facts.upstream_time
    before = 0.0 if upstream is None else upstream
    verdicts: list[Verdict] = []
    for step in steps:
        kind = step.kind
        if kind == _AVAILABILITY:
            verdicts.append(step.good)
        elif kind != _E2E and not streamed:
            verdicts.append(step.excluded)
        elif kind == _ITL:
            verdicts.append(_itl(step, facts))
        elif kind == _TPOT:
            verdicts.append(_tpot(step, facts))
        else:  # an answer in one piece or an empty one has no tokens: its first and last are known when it ends
            at = timing.first_token_at if kind == _TTFT else timing.last_token_at
            own = (at if at > 0.0 else facts.ended_at) - arrived_at
            if kind == _TTFT:
                own -= timing.stall_before
            good = (own + before if step.from_user else own) <= step.below
            verdicts.append(step.good if good else _bad(step, facts, own))
    return tuple(verdicts)


def _judge_broken(step: Step, facts: Facts, left: bool, streamed: bool) -> Verdict:
    """A request that reached no whole answer, through our doing or because its client left."""
    kind = step.kind
    if kind == _AVAILABILITY:
        return step.excluded if left else step.ours
    if kind != _E2E and not streamed:
        return step.excluded
    if kind == _ITL:
        return _itl(step, facts)
    if kind == _TPOT:
        return _tpot(step, facts)
    first_at = facts.timing.first_token_at
    if kind == _TTFT and first_at > 0.0:
        own = first_at - facts.arrived_at - facts.timing.stall_before
        return step.good if _value(step, facts, own) <= step.below else _bad(step, facts, own)
    return _cut_short(step, facts) if left else _bad(step, facts, inf)


def _is_infeasible(facts: Facts) -> bool:
    """A deadline that no engine could have met, and that has passed in the queue."""
    return facts.infeasible_deadline and facts.outcome is _EXPIRED and facts.reason is _DEADLINE


def _itl(step: Step, facts: Facts) -> Verdict:
    timing = facts.timing
    num = timing.num_gaps or num_gaps(timing)
    if num == 0 or facts.num_choices > 1:
        return step.excluded
    counted = timing.itl_bad
    bad = counted[step.itl_index] if step.itl_index < len(counted) else num_gaps_above(timing, step.below)
    if bad == 0:
        return _Verdict(step.name, _GOOD, num, 0)
    return _Verdict(step.name, _BAD, num - bad, bad, _OURS)


def _tpot(step: Step, facts: Facts) -> Verdict:
    timing = facts.timing
    if timing.num_tokens < 2 or facts.num_choices > 1 or timing.first_token_at <= 0.0:
        return step.excluded
    tpot = (timing.last_token_at - timing.first_token_at - timing.stall_between) / (timing.num_tokens - 1)
    return step.good if tpot <= step.below else step.ours


def _value(step: Step, facts: Facts, own_time: float) -> float:
    """What the objective's clock shows, which may have started upstream."""
    upstream = facts.upstream_time
    return own_time + upstream if step.from_user and upstream is not None else own_time


def _cut_short(step: Step, facts: Facts) -> Verdict:
    """The client left at `ended_at` without what this objective waits for: by then it was late, or nobody knows."""
    elapsed = facts.ended_at - facts.arrived_at
    if step.kind == _TTFT:
        elapsed -= facts.timing.stall_before
    return _bad(step, facts, elapsed) if _value(step, facts, elapsed) > step.below else step.censored


def _bad(step: Step, facts: Facts, own_time: float) -> Verdict:
    """A breach and its account. What the client held back is its own; the rest is weighed between us and upstream."""
    if step.kind == _E2E and facts.timing.client_stall > 0.0:
        own_time -= _held_back(facts.timing)
        if _value(step, facts, own_time) <= step.below:
            return Verdict(step.name, _BAD, 0, 1, Charge.CLIENT)
    if not step.from_user:
        return step.ours
    account = charge(
        step.below,
        facts.upstream_time,
        own_time,
        _baseline(step, facts),
        facts.upstream_baseline,
        trusted=facts.upstream_trusted,
        vouched=facts.upstream_vouched,
    )
    return Verdict(step.name, _BAD, 0, 1, account)


def _held_back(timing: Timing) -> float:
    """Seconds of the time to the last token that the client took: what it held back afterwards delayed nothing."""
    return timing.stall_before + timing.stall_between if timing.last_token_at > 0.0 else timing.client_stall


def _baseline(step: Step, facts: Facts) -> float | None:
    """Our usual own time for a request like this; for e2e it grows with the output that came."""
    if step.kind == _TTFT or facts.baseline_ttft is None:
        return facts.baseline_ttft
    further = max(0, facts.timing.num_tokens - 1)
    if further == 0:
        return facts.baseline_ttft
    return None if facts.baseline_tpot is None else facts.baseline_ttft + further * facts.baseline_tpot


def num_gaps(timing: Timing) -> int:
    """Gaps between tokens, zeros included, added up from the sketches."""
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
