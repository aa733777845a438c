"""What a gateway would have predicted at each dispatch of a log, by the governor's own predictor, and what came.

The log is gone through in order of time: what is known at a dispatch is what had happened before it.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.governor.estimates import Cursor, Histogram
from plimsoll.governor.learned import UNTOLD, facts_at, known
from plimsoll.governor.predicting import Common, Predictor
from plimsoll.governor.tenants import ENOUGH, WINDOW
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome

_FIRST_TOKEN, _END, _DISPATCH = range(3)  # at one instant in this order: what happened is known to who comes then
_WARM_UP: Final = 20  # first tokens by which factors have settled: what was predicted before teaches nothing


class Visit(Struct, frozen=True):
    """One request on one replica; instants in s of any one clock. `reported` as `governor.learned.told`."""

    replica: str
    dispatched_at: float
    first_token_at: float
    ended_at: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    tenant: str = ""
    tpot: float = 0.0  # s; 0: not known
    reserved_output: int = 0  # tokens; 0: not known
    reported: tuple[float, float, float] = (UNTOLD, UNTOLD, UNTOLD)
    report_age: float = UNTOLD


class Case(Struct, frozen=True):
    """A dispatch at an instant with what was known then (`engine.learned.FEATURES`), and what came after it, s."""

    at: float
    facts: list[float]
    ttft: float
    predicted_itl: float
    tpot: float  # 0: not known


def visit_of(record: Record, block_size: int) -> Visit | None:
    """A row's only visit; None where there was none, several, or no first token to be seen."""
    if record.outcome is not Outcome.COMPLETED or record.attempts != 1 or record.prefill or not record.streaming:
        return None
    if record.dispatched_at is None or record.first_token_at is None:
        return None
    told = (record.report_running, record.report_waiting, record.report_kv_usage)
    return Visit(
        record.replica, record.dispatched_at, record.first_token_at, record.finished_at, record.prompt_tokens,
        record.output_tokens, record.cached_expected or 0, record.tenant, record.tpot or 0.0,
        max(0, record.kv_blocks_reserved * block_size - record.prompt_tokens),
        (known(told[0]), known(told[1]), known(told[2])), known(record.report_age),
    )  # fmt: skip


def cases(visits: Sequence[Visit], profile: EngineProfile) -> list[Case]:
    """One of each visit, by the instant of its dispatch, but for the first few."""
    return _Hindsight(visits, profile).all()


class _Replica:
    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.pending = self.running = self.context = 0


class _Hindsight:
    def __init__(self, visits: Sequence[Visit], profile: EngineProfile) -> None:
        self._visits = visits
        steps, common = StepTime(profile), Common()
        self._common = common
        self._replicas = {name: _Replica(Predictor(profile, steps, common)) for name in {v.replica for v in visits}}
        self._outputs: dict[str, tuple[Histogram, Cursor]] = {}
        self._booked: dict[int, tuple[int, int]] = {}  # of a visit: prompt tokens to compute, and context
        self._paces: dict[int, tuple[float, float]] = {}  # at which it was predicted
        self._cases: dict[int, Case] = {}

    def all(self) -> list[Case]:
        events = []
        for i, visit in enumerate(self._visits):
            events.append((visit.dispatched_at, _DISPATCH, i))
            events.append((visit.first_token_at, _FIRST_TOKEN, i))
            events.append((visit.ended_at, _END, i))
        happen = {_DISPATCH: self._dispatch, _FIRST_TOKEN: self._first_token, _END: self._end}
        warm = []
        for _, kind, i in sorted(events):
            happen[kind](i, self._visits[i])
            if kind == _DISPATCH and self._common.num >= _WARM_UP:
                warm.append(i)
        return [self._cases[i] for i in warm]

    def _dispatch(self, i: int, visit: Visit) -> None:
        there = self._replicas[visit.replica]
        predictor, at, predicted = there.predictor, visit.dispatched_at, 0.0
        own = max(0, visit.prompt_tokens - visit.cached_tokens)
        for each in self._replicas.values():  # routing asks all, and each then looks where in its steps it is
            asked = each.predictor.ttft_now(own, each.pending, each.running, each.context, at)
            predicted = asked if each is there else predicted
        facts = facts_at(
            predicted, own, visit.cached_tokens, pending=there.pending, running=there.running, context=there.context,
            slowness=predictor.slowness, reported=visit.reported, report_age=visit.report_age,
        )  # fmt: skip
        predictor.clock.sent(own)
        itl = predictor.itl(there.running + 1, there.context + visit.prompt_tokens)
        self._cases[i] = Case(at, facts, visit.first_token_at - at, itl, visit.tpot)
        self._paces[i] = (predictor.ttft_pace(), predictor.itl_pace())
        context = visit.prompt_tokens + self._expected(visit)
        self._booked[i] = (own, context)
        there.pending += own
        there.running += 1
        there.context += context

    def _first_token(self, i: int, visit: Visit) -> None:
        there, case = self._replicas[visit.replica], self._cases[i]
        there.pending -= self._booked[i][0]
        there.predictor.clock.ended(visit.first_token_at)
        there.predictor.first_token(case.facts[0], case.ttft, self._paces[i][0])

    def _end(self, i: int, visit: Visit) -> None:
        there = self._replicas[visit.replica]
        there.running -= 1
        there.context -= self._booked.pop(i)[1]
        there.predictor.clock.ended(visit.ended_at)
        there.predictor.tokens(self._cases[i].predicted_itl, visit.tpot, self._paces.pop(i)[1])
        self._lengths(visit.tenant)[0].add(max(1, visit.output_tokens))

    def _expected(self, visit: Visit) -> int:
        """Tokens that its tenant's answers usually have, as the governor estimates them."""
        middle = self._lengths(visit.tenant)[1].middle()
        reserved = visit.reserved_output or visit.output_tokens
        return reserved if middle is None else min(reserved, round(middle))

    def _lengths(self, tenant: str) -> tuple[Histogram, Cursor]:
        if tenant not in self._outputs:
            lengths = Histogram(ENOUGH, WINDOW)
            self._outputs[tenant] = (lengths, lengths.follow(1, 2))
        return self._outputs[tenant]
