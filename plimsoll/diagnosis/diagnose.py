"""The three steps: who is crowded out → whose budget burns, since when → which root cause.

Reading order: `diagnose`. It sees rows only, those that live operation wrote; nothing that a simulator knows.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.case import MORE, SHARED, Case, Cause
from plimsoll.diagnosis.causes import causes
from plimsoll.diagnosis.crowding import NOBODYS, waited_for
from plimsoll.diagnosis.enginesignals import EngineSignal, States, engine_signals
from plimsoll.diagnosis.excess import Excess, excess
from plimsoll.diagnosis.incident import MIN_BAD, incident, spell
from plimsoll.diagnosis.parts import time_parts
from plimsoll.diagnosis.remedies import CauseKind
from plimsoll.diagnosis.shift import Change, changes, slow_for_its_kind
from plimsoll.diagnosis.signals import Signals, TenantSignal, signals
from plimsoll.diagnosis.timeparts import COLUMN, Part, TimeParts
from plimsoll.diagnosis.visits import Ints, Visits
from plimsoll.engine.profile import EngineProfile
from plimsoll.requestlog.enginestate import WINDOW
from plimsoll.slo.outcome import Reason

SURE: Final = 0.5
"""Likelihood that a cause needs to be named where fewer objectives were missed than that."""


INSIDE: Final = frozenset({
    CauseKind.EXPERT_IMBALANCE, CauseKind.ALL_TO_ALL, CauseKind.SPECULATION_COLLAPSE, CauseKind.PROMPT_SHAPE,
    CauseKind.LINK_CONTENTION, CauseKind.ADAPTER_LOADING, CauseKind.COLD_START, CauseKind.CHANGED_ENGINE,
})  # fmt: skip
"""Root causes within engines."""


SHARED_BY_ALL: Final = frozenset({CauseKind.OVERLOAD, CauseKind.KV_EXHAUSTION, CauseKind.PREEMPTION_STORM})
"""Root causes that are too much for the pool as a whole: of whom or in what it shows first is chance."""


class Mechanism(StrEnum):
    """How it came about."""

    NEIGHBOUR = "neighbour interference"
    COMPUTE = "compute path"
    SCHEDULING = "scheduling noise"
    OUTSIDE = "outside"
    UNKNOWN = "unknown"
    NONE = "no fault"


class Diagnosis(Struct, frozen=True):
    """What was found about one tenant, or about all (`tenant` empty)."""

    tenant: str
    num: int
    num_bad: int
    since: float | None
    until: float | None
    mechanism: Mechanism
    changes: tuple[Change, ...]
    excess: Excess
    culprits: dict[str, float]
    signals: Signals
    causes: tuple[Cause, ...]
    notes: tuple[str, ...]

    @property
    def cause(self) -> Cause | None:
        """The likeliest root cause; None where none is likely enough to be named."""
        return self.causes[0] if self.causes else None


def diagnose(
    visits: Visits,
    profiles: Mapping[str, EngineProfile],
    tenant: str = "",
    parts: TimeParts | None = None,
    states: States | None = None,
) -> Diagnosis:
    """What is wrong with the requests of a tenant (of all: ""). `profiles` by pool; `states`: what replicas said."""
    divided = time_parts(visits, profiles) if parts is None else parts
    mine = np.flatnonzero(visits.tenant.codes == visits.tenant.code(tenant)) if tenant else np.arange(visits.num)
    bad = visits.broke[mine]
    found = changes(visits.arrived[mine], bad)
    slow_changes = found or changes(visits.arrived[mine], _slow(visits, mine) | bad)
    worse = [change for change in slow_changes if change.worse]
    since, until = incident(slow_changes)
    slow, fine, compared = _compare(visits, mine, since, until)
    more = excess(visits, divided, slow, fine, compared)
    signal = _signals(visits, divided, slow, *(spell(visits.arrived[mine], bad) if since is None else (since, until)))
    culprits, attributed, behind = _culprits(visits, divided, slow, fine)
    engines = _engine_signals(visits, slow, since, until, states)
    case = Case(
        tenant,
        _without_selection(more, signal.tenant(tenant)),
        signal,
        _by_replica(visits, slow),
        culprits,
        _failed_share(visits, slow),
        engines,
        attributed,
        _adapter_share(visits, slow),
        _unserved_share(visits, slow),
        {part: s / more.total for part, s in behind.items()} if more.total > 0.0 else {},
    )
    is_incident = slow.size >= MIN_BAD and (bool(worse) or bool(bad.sum() >= MIN_BAD))
    named = causes(case) if is_incident else ()
    if bad.sum() < MIN_BAD:  # slow for its kind, and hardly anything promised was missed
        named = tuple([cause for cause in named if cause.likelihood >= SURE and slow.size >= 2 * MIN_BAD])
    return Diagnosis(
        tenant=tenant,
        num=int(mine.size),
        num_bad=int(bad.sum()),
        since=since,
        until=until,
        mechanism=_mechanism(case, named) if is_incident else Mechanism.NONE,
        changes=found or slow_changes,
        excess=more,
        culprits=culprits,
        signals=signal,
        causes=named,
        notes=tuple(_notes(visits, divided, slow)),
    )


def _slow(visits: Visits, mine: Ints) -> NDArray[np.bool_]:
    """Whose first token or pace is slow for its kind."""
    pace = visits.tpot[mine]
    usual = np.full(mine.size, np.nanmedian(pace) if (~np.isnan(pace)).any() else np.nan)
    late = slow_for_its_kind(visits.ttft[mine], visits.baseline[mine], 0.1)
    return late | slow_for_its_kind(pace, usual, 0.1)


def _without_selection(more: Excess, own: TenantSignal | None) -> Excess:
    """What is to be explained. Where a tenant's requests are as long as before, that slow ones are longer explains
    nothing: the longest are the first to be late. Of an excess that is hardly anything else nothing would be left."""
    if own is None or own.prompt is None or own.output is None or max(own.prompt, own.output) >= MORE:
        return more
    return msgspec.structs.replace(more, mix=np.zeros_like(more.mix)) if more.mix_share <= 0.75 else more


def _compare(visits: Visits, mine: Ints, since: float | None, until: float | None) -> tuple[Ints, Ints, str]:
    """Slow rows and rows that were fine to compare them with."""
    arrived = visits.arrived[mine]
    if since is None:
        return mine[visits.broke[mine]], mine[~visits.broke[mine] & visits.completed[mine]], "fine"
    during = (arrived >= since) & (arrived < (np.inf if until is None else until))
    slow = mine[during & visits.broke[mine]]
    if slow.size < MIN_BAD:
        ratio = visits.ttft / np.where(visits.baseline > 0.0, visits.baseline, np.nan)
        among = mine[during & ~np.isnan(ratio[mine])]
        slow = among[np.argsort(-ratio[among])[: max(MIN_BAD, among.size // 5)]]
    before = mine[(arrived < since) & visits.completed[mine] & ~visits.broke[mine]]
    if before.size >= 3 * MIN_BAD:
        return slow, before, "before"
    return slow, mine[~during & visits.completed[mine] & ~visits.broke[mine]], "fine"


def _signals(visits: Visits, parts: TimeParts, slow: Ints, since: float | None, until: float | None) -> Signals:
    """One time against another: from the change on, of all tenants, and before it."""
    everything = np.arange(visits.num)
    if since is None or not slow.size:
        return signals(visits, parts, np.zeros(0, np.int64), everything, (0.0, 0.0))
    lead = float((visits.finished[slow] - visits.arrived[slow]).max())
    first = float(visits.arrived[0])
    end = float(visits.arrived[-1]) if until is None else until
    begin = since - min(lead, 60.0, (since - first) / 2, max(end - since, 5.0))  # who was there already counts
    during = everything[(visits.arrived >= begin) & (visits.arrived <= end)]
    before = everything[visits.arrived < begin]
    return signals(visits, parts, before, during, (begin - first, end - begin), since=since)


def _engine_signals(
    visits: Visits, slow: Ints, since: float | None, until: float | None, states: States | None
) -> tuple[EngineSignal, ...]:
    """From the change on; where none was believed, from the instant by which a quarter of the slow ones had come."""
    if states is None or not slow.size:
        return ()
    first = float(np.quantile(visits.arrived[slow], 0.25))
    begin = first if since is None else min(since, first)
    end = float(visits.finished[slow].max()) if until is None else until
    return engine_signals(states, begin - WINDOW, end)


def _adapter_share(visits: Visits, slow: Ints) -> float:
    needs = visits.adapter.codes[slow] != visits.adapter.code("")
    return float(needs.mean()) if slow.size else 0.0


def _culprits(
    visits: Visits, parts: TimeParts, slow: Ints, fine: Ints
) -> tuple[dict[str, float], float, dict[Part, float]]:
    """Each tenant's share of what slow requests waited more, for anybody, than fine ones; how much of all that they
    waited more lies behind anybody's requests at all; and s that each waited in our queue for requests that were kept
    by nobody's prompts, by what kept them."""
    if not slow.size:
        return {}, 1.0, {}
    usual = waited_for(visits, parts, fine) / max(1, fine.size)
    more_for = np.maximum(0.0, waited_for(visits, parts, slow) / slow.size - usual).tolist()
    num = len(visits.tenant.names)
    extra, behind = more_for[:num], dict(zip(NOBODYS, more_for[num:], strict=True))
    total = sum(extra)
    ranked = sorted(zip(visits.tenant.names, extra, strict=True), key=lambda item: (-item[1], item[0]))
    waiting = [COLUMN[part] for part in (Part.GATEWAY_QUEUE, Part.ENGINE_QUEUE, Part.OTHERS_PREFILL)]
    usually = parts.seconds[fine][:, waiting].sum(axis=1).mean() if fine.size else 0.0
    more = float(parts.seconds[slow][:, waiting].sum(axis=1).mean() - usually)
    attributed = min(1.0, total / more) if more > 0.0 else 1.0
    return {name: value / total for name, value in ranked if value > 0.0} if total > 0.0 else {}, attributed, behind


def _by_replica(visits: Visits, slow: Ints) -> dict[str, float]:
    counts: list[int] = np.bincount(visits.replica.codes[slow], minlength=len(visits.replica.names)).tolist()
    return {name: num / slow.size for name, num in zip(visits.replica.names, counts, strict=True) if name and num}


def _failed_share(visits: Visits, slow: Ints) -> float:
    return float(visits.failed[slow].mean()) if slow.size else 0.0


def _unserved_share(visits: Visits, slow: Ints) -> float:
    unserved = visits.reason.codes[slow] == visits.reason.code(Reason.NO_REPLICA)
    return float(unserved.mean()) if slow.size else 0.0


def _mechanism(case: Case, named: tuple[Cause, ...]) -> Mechanism:
    """One of three, or what is not ours; by where the excess lies and for whom it was waited.

    Where engines themselves tell what is wrong inside them, that is on the compute path, whoever waits behind it.
    """
    if named and named[0].kind in INSIDE and named[0].likelihood >= 0.5:
        return Mechanism.COMPUTE
    if named and named[0].kind in SHARED_BY_ALL:
        return Mechanism.SCHEDULING
    share = case.excess.share
    if share(Part.UPSTREAM, Part.CLIENT) >= 0.5:
        return Mechanism.OUTSIDE
    shared = case.crowded
    own = share(Part.OWN_PREFILL, *SHARED, Part.DECODE, Part.STALL) - shared + case.excess.mix_share
    unknown = share(Part.UNKNOWN)
    others = max((value for name, value in case.culprits.items() if name != case.victim), default=0.0)
    if shared >= 0.5 and others >= 0.5 and case.victim and case.attributed >= 0.5:
        return Mechanism.NEIGHBOUR
    if unknown > max(own, shared):
        return Mechanism.UNKNOWN
    itself = case.culprits.get(case.victim, 0.0) >= 0.5
    in_engine = share(Part.ENGINE_QUEUE) >= 0.5 * shared and case.attributed < 0.5  # behind nobody: loads, starts
    return Mechanism.COMPUTE if own >= shared or itself or in_engine else Mechanism.SCHEDULING


def _notes(visits: Visits, parts: TimeParts, slow: Ints) -> list[str]:
    notes = []
    dispatched = slow[~np.isnan(visits.dispatched[slow])]
    blind = int((~parts.modelled[dispatched]).sum())
    if blind:
        notes.append(
            f"{blind} of {dispatched.size} slow requests ran in pools without an engine profile, or got no token: "
            "their engine's time is unknown. Give the pool a profile, or make one with plimsoll calibrate."
        )
    versions = np.unique(visits.policy_version.codes)
    if versions.size > 1:
        notes.append(f"{versions.size} policies held in this window.")
    return notes
