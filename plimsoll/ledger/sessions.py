"""Sessions as the log tells of them, row by row, and the runs that come of them when they are over.

A run is over when nothing of its session was under way for longer than the policy's `idle`, by the time that the log's
own rows tell, one after the other: so whoever reads the log again, in whatever stretches, finds the same runs at the
same places. Opened requests count as under way until they are settled.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple

from plimsoll.ledger.accounts import RUN_TIME, RUN_TURNS, Owner, world
from plimsoll.ledger.entry import Entry, EntryKind
from plimsoll.policy.objective import RUN, RunObjective
from plimsoll.policy.policy import Policy
from plimsoll.slo.runs import Turn, charged, in_order, judged, times_of, weights_of
from plimsoll.slo.verdict import Judgement, Verdict

MILLI: Final = 1000
"""Times are booked in whole ms, turns in thousandths."""
CAUSES: Final = frozenset({"rag", "tool", "llm"})
"""Causes whose upstream time has an account of its own; clients may send any, so all others share `other`."""


class Kept(NamedTuple):
    """A turn of a run that is not over: whose, and by which policy it was judged ("" while it is under way)."""

    tenant: str
    policy: str
    turn: Turn


class Over(NamedTuple):
    """A run that is over, as a request is settled: one verdict, and entries but for their period."""

    tenant: str
    tier: str
    policy: str
    arrived_at: float  # its first request
    known_at: float  # the row by which it was known to be over
    verdict: Verdict | None  # None: excluded
    flows: tuple[tuple[str, str, int], ...]  # source, target, amount: ms by where they went, turns kept and broken


class _Session:
    """The turns of one run so far."""

    __slots__ = ("due", "policy", "turns")

    def __init__(self) -> None:
        self.turns: dict[int, Turn] = {}
        self.policy = ""
        self.due = inf  # when it is over, if nothing comes; inf: something is under way


class Sessions:
    """All runs of one log that are not over. `changes` tells what must be kept beside the books."""

    def __init__(self, policies: dict[str, Policy], in_force: str = "", kept: Iterable[Kept] = ()) -> None:
        """`policies` by version, which may grow; `in_force` and `kept` as an earlier one left them."""
        self.in_force = in_force
        """Version of the policy that the log noted last; "": none."""
        self.changes: dict[tuple[str, str, int], Kept | None] = {}
        """By tenant, session and request: what to keep; None: no longer."""
        self._policies = policies
        self._sessions: dict[tuple[str, str], _Session] = {}
        self.due: list[tuple[float, str, str]] = []
        """A heap: when runs are over that nothing more comes to; some of them have gone on since."""
        self._promises: dict[tuple[str, str], tuple[str, RunObjective] | None] = {}
        for each in kept:
            self._put(each)
        for (tenant, session), found in self._sessions.items():
            self._reckon(tenant, session, found)

    @property
    def watching(self) -> bool:
        """Whether the policy in force promises anything of runs: else opened requests need not be looked at."""
        policy = self._policies.get(self.in_force)
        return policy is not None and any(tier.run is not None for tier in policy.tiers)

    def opened(self, tenant: str, session: str, request_id: int, arrived_at: float) -> None:
        """A request of a session is under way."""
        if session and self._promise(self.in_force, tenant) is not None:
            self._keep(Kept(tenant, "", Turn(request_id, session, arrived_at, inf)))

    def settled(self, tenant: str, policy: str, turn: Turn) -> None:
        """It ended."""
        if self._promise(policy, tenant) is not None:
            self._keep(Kept(tenant, policy, turn))
            return
        found = self._sessions.get((tenant, turn.session))  # promised nothing any more
        if found is not None and found.turns.pop(turn.request_id, None) is not None:
            self.changes[tenant, turn.session, turn.request_id] = None
            self._reckon(tenant, turn.session, found)

    def passed(self, at: float) -> Iterator[Over]:
        """A row of that instant was read: the runs that were over before."""
        while self.due and self.due[0][0] < at:
            due, tenant, session = heappop(self.due)
            found = self._sessions.get((tenant, session))
            if found is not None and found.due == due:
                del self._sessions[tenant, session]
                for request_id in found.turns:
                    self.changes[tenant, session, request_id] = None
                if found.turns and (promise := self._promise(found.policy, tenant)) is not None:
                    yield _over(tenant, found, *promise, at)

    def _keep(self, each: Kept) -> None:
        self.changes[each.tenant, each.turn.session, each.turn.request_id] = each
        self._reckon(each.tenant, each.turn.session, self._put(each))

    def _put(self, each: Kept) -> _Session:
        found = self._sessions.setdefault((each.tenant, each.turn.session), _Session())
        found.turns[each.turn.request_id] = each.turn
        if each.policy:
            found.policy = each.policy
        return found

    def _reckon(self, tenant: str, session: str, found: _Session) -> None:
        """When it will be over."""
        promise = self._promise(found.policy, tenant)
        idle = 0.0 if promise is None else promise[1].idle
        found.due = max([turn.finished_at for turn in found.turns.values()], default=-inf) + idle
        if found.due < inf:
            heappush(self.due, (found.due, tenant, session))

    def _promise(self, version: str, tenant: str) -> tuple[str, RunObjective] | None:
        """Its tier, and what that promises of runs."""
        key = (version, tenant)
        if key not in self._promises:
            policy = self._policies.get(version)
            if policy is None:
                return None
            name = next((each.tier for each in policy.tenants if each.name == tenant), "")
            run = next((tier.run for tier in policy.tiers if tier.name == name), None)
            self._promises[key] = None if run is None else (name, run)
        return self._promises[key]


def _over(tenant: str, found: _Session, tier: str, objective: RunObjective, at: float) -> Over:
    turns = in_order(found.turns.values())
    times = times_of(turns)
    weights = weights_of(turns, times.ended_at, objective.half_life)
    judgement = judged(turns, times.total, objective)
    verdict = None
    if judgement is Judgement.BAD:
        verdict = Verdict(RUN, judgement, 0, 1, charged(turns, times, objective))
    elif judgement is Judgement.GOOD:
        verdict = Verdict(RUN, judgement, 1, 0)
    spent = {"llm": times.llm, "own": times.own}
    for cause, seconds in times.upstream.items():
        name = f"upstream:{cause if cause in CAUSES else 'other'}"
        spent[name] = spent.get(name, 0.0) + seconds
    clock, count = Owner(tenant, RUN_TIME), Owner(tenant, RUN_TURNS)
    flows = [
        (world(RUN_TIME, "passed"), clock.account(name), round(MILLI * seconds))
        for name, seconds in sorted(spent.items())
    ]
    for name, weight in (("kept", weights.kept), ("broken", weights.judged - weights.kept)):
        flows.append((world(RUN_TURNS, "judged"), count.account(name), round(MILLI * weight)))
    return Over(tenant, tier, found.policy, turns[0].arrived_at, at, verdict, tuple(flows))


def entries_of(over: Over, period: str) -> tuple[Entry, ...]:
    """Where the run's time and turns are booked, whatever it was judged to be."""
    return tuple([Entry(EntryKind.SPEND, *flow, period) for flow in over.flows if flow[2]])
