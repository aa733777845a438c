"""The path that a request would take now, step by step, and why: what the main path in `governor` asks, in words.

Looking is not free of traces (the request is really decided upon in the end), so it is done on a governor that is
thrown away: a fresh one, or one `restoring` made from a snapshot.
"""

from msgspec import Struct

from plimsoll.governor.admission import FREE, LENT, NO, OWN_FLOOR
from plimsoll.governor.decisions import Decision, Dispatch, Enqueue, Reject
from plimsoll.governor.degradation import BATCH_OF_ONE
from plimsoll.governor.events import RequestArrived
from plimsoll.governor.governor import Governor
from plimsoll.governor.matrix import place
from plimsoll.governor.pathplaces import classes_step, drafts_step, plugins_step
from plimsoll.governor.pathturns import budget_step, hedge_step, prefill_step, shared_words, turn_step
from plimsoll.governor.placing import degrade, refused_label, reserve
from plimsoll.governor.pool import Pool
from plimsoll.governor.register import Register
from plimsoll.governor.replicas import UNLIMITED, Replica
from plimsoll.governor.request import Request
from plimsoll.governor.routing import Considered, considered
from plimsoll.governor.saturation import saturation
from plimsoll.slo.outcome import REASONS, Reason
from plimsoll.units import format_duration

_RIGHTS = {NO: "no", OWN_FLOOR: "own floor", FREE: "free", LENT: "lent"}


class PathStep(Struct, frozen=True):
    """One question on the way: what was asked, how it was answered, by which numbers."""

    step: str
    answer: str
    why: str


class ReplicaView(Struct, frozen=True):
    """One replica as the request finds it."""

    replica: str
    right: str  # "own floor" | "free" | "lent": it may go there now by that right; "no"
    why_not: str  # "" where it may
    needs: int  # units
    free: int  # units that nobody has reserved
    unit: str  # "blocks" | "slots"
    held_tokens: int  # prompt tokens that lie in its cache, as far as is known
    cost: float | None  # by which routing chooses, the lowest; s with an engine profile, else tokens; None: not asked
    predicted_ttft: float | None  # s; None: routing does not predict


class Path(Struct, frozen=True):
    """Where the request goes, or why it does not."""

    at: float
    decision: str  # "dispatch" | "enqueue" | "reject"
    reason: str
    why: str
    tenant: str
    tier: str
    pool: str
    replica: str  # "": none yet
    retry_after: float  # s; 0: not known
    degraded: str
    reserved_output_tokens: int
    steps: tuple[PathStep, ...]
    replicas: tuple[ReplicaView, ...]


class Seen:
    """What is found before the decision falls."""

    def __init__(self) -> None:
        self.steps: list[PathStep] = []
        self.replicas: tuple[ReplicaView, ...] = ()
        self.pool = ""

    def note(self, step: str, answer: str, why: str) -> None:
        """One more step."""
        self.steps.append(PathStep(step, answer, why))


def path(governor: Governor, event: RequestArrived) -> Path:
    """The path that the request would take now. It is really decided upon: ask a governor that is thrown away."""
    request = governor.owned(event)
    seen = look(governor.register, request, event.at)
    return _told(request, seen, governor.handle(event), event.at)


def look(register: Register, request: Request, at: float) -> Seen:
    """Everything that the main path asks of the request, up to the choice of its replica."""
    seen = Seen()
    account = request.account
    if not account.known:
        seen.note("tenant", "unknown", f"the policy names no tenant {account.name!r}")
        return seen
    seen.note("tenant", account.name, f"weight {account.weight:g} in its tier, {account.num_open} requests open")
    _look_at_tier(register, request, seen)
    for step in (plugins_step(register, request), classes_step(register, request, at), drafts_step(register, request)):
        if step is not None:
            seen.note(*step)
    pool, refusal = place(register, request, at)
    if pool is None or refusal is not None:
        seen.note("pool", "none", "no replica is up" if refusal is None else _refused(refusal.reason, refusal.detail))
        return seen
    seen.note("pool", pool.name, f"serves {request.model} for prompts {_span(pool)}{shared_words(register, pool)}")
    pool = _look_at_ladder(register, pool, request, seen)
    seen.pool = pool.name
    reserve(pool, request)
    _look_at_reservation(pool, request, seen)
    _look_at_limits(request, seen)
    seen.note(*budget_step(register, request))
    _look_at_queue(register, pool, request, at, seen)
    seen.note(*turn_step(register, pool, request))
    for more in (prefill_step(pool, request, at), hedge_step(pool, request)):
        if more is not None:
            seen.note(*more)
    seen.replicas = tuple([_view(pool, replica, request, at) for replica in pool.replicas if not replica.leaving])
    return seen


def _told(request: Request, seen: Seen, decisions: list[Decision], at: float) -> Path:
    """What was found and what was decided, together."""
    kind, detail, retry_after, replica, degraded, reserved = "", "", 0.0, "", request.degraded, 0
    reason: Reason | None = None
    for decision in decisions:
        if isinstance(decision, Reject):
            kind, reason, detail, retry_after = "reject", decision.reason, decision.detail, decision.retry_after
        elif isinstance(decision, Enqueue):
            kind, reason = "enqueue", decision.reason
        elif isinstance(decision, Dispatch) and decision.request_id == request.id:
            kind, reason, replica = "dispatch", decision.reason, decision.replica
            degraded, reserved = decision.degraded, decision.reserved_output_tokens
    if reason is None:
        raise ValueError("the request was not decided upon")
    return Path(
        at, kind, reason.value, _refused(reason, detail), request.tenant, request.tier_name, seen.pool, replica,
        retry_after, degraded, reserved, tuple(seen.steps), seen.replicas,
    )  # fmt: skip


def _look_at_tier(register: Register, request: Request, seen: Seen) -> None:
    tier, account = request.tier, request.account
    why = f"rank {tier.rank}, floor {float(tier.share):.0%} of every replica"
    if request.asked_tier:
        known = request.asked_tier in register.tiers
        refusal = refused_label(account.tenant, request.asked_tier, request.cause, tier_known=known)
        why += "; asked for by the request" if refusal is None else f"; refused: {refusal.detail}"
    if account.demoted:
        why += "; its turn is one rank lower this month, for its budget of the last"
    seen.note("tier", tier.name, why)


def _look_at_ladder(register: Register, pool: Pool, request: Request, seen: Seen) -> Pool:
    if pool.ladder is None:
        return pool
    level = pool.ladder.level
    if not (level or register.has_degraded_tenants):
        seen.note("degradation", "none", "the ladder is at level 0")
        return pool
    target = degrade(register, pool, request)
    words = f"level {level} of the pool, {request.account.level} of the tenant (for what is not critical)"
    if target is not pool:
        words += f"; goes to pool {target.name}, model {target.policy.model}{_quicker(register, pool, target)}"
    seen.note("degradation", request.degraded or "nothing is taken", words)
    return target


def _quicker(register: Register, pool: Pool, target: Pool) -> str:
    own, its = register.fronts.paces.get(pool.name), register.fronts.paces.get(target.name)
    if not register.fronts.small_by_front or own is None or its is None:
        return ""
    if own.token_time is None or its.token_time is None:
        return ""
    times = f"{format_duration(its.token_time)} a token against {format_duration(own.token_time)}"
    return f", the best of those that are quicker and can take it ({times})"


def _look_at_reservation(pool: Pool, request: Request, seen: Seen) -> None:
    usual = request.account.outputs.high.upper()
    if request.output_tokens == 0:
        source = "its answer has no output tokens"
    elif usual is None:
        source = "as the client asked" if request.max_output_tokens else "no output of this tenant is known yet"
    else:
        source = f"the smaller of the client's max_tokens and what this tenant's outputs rarely exceed ({usual:.0f})"
    if pool.strict:
        source = "strict: all that it may become"
    answer = f"{request.prompt_tokens} prompt + {request.num_choices} × {request.output_tokens} output tokens"
    seen.note("reservation", answer, source)


def _look_at_limits(request: Request, seen: Seen) -> None:
    account = request.account
    told: list[str] = []
    limit = account.held_against()
    if limit >= 0:
        told.append(f"{account.num_open} of {limit} requests open")
    if account.requests is not None:
        told.append(f"{account.requests.level:.0f} of {account.requests.capacity:.0f} requests left this minute")
    if account.tokens is not None:
        left, all_of = account.tokens.level, account.tokens.capacity
        told.append(f"{left:.0f} of {all_of:.0f} tokens left this minute, it takes {request.token_estimate}")
    if account.flow is not None:
        told.append(f"the token rate is {account.flow.factor:.0%} of the policy's, as it is served")
    if account.max_waiting >= 0:
        told.append(f"{account.num_waiting} of {account.max_waiting} waiting")
    seen.note("limits", "looked at" if told else "none", "; ".join(told) or "the tenant has no limits of its own")


def _look_at_queue(register: Register, pool: Pool, request: Request, at: float, seen: Seen) -> None:
    ahead = [
        f"{lane.num} of {register.ranked[index].name if len(pool.lanes) == len(register.ranked) else 'all tiers'}"
        for index, lane in enumerate(pool.lanes)
        if lane.num
    ]
    full = saturation(pool, at)
    how_full = "no replica is routable" if full is None else f"pool {full:.0%} full"
    if pool.ladder is not None and pool.ladder.holds(BATCH_OF_ONE):
        how_full += ", one request a replica at a time"
    answer = "somebody waits" if ahead else "nobody waits"
    seen.note("queue", answer, "; ".join([*ahead, how_full]))


def _view(pool: Pool, replica: Replica, request: Request, at: float) -> ReplicaView:
    replica.paced = False  # admission says so where it is why
    told: Considered = considered(pool, replica, request, at)
    needs, free = replica.units_for(request), replica.limit - replica.reserved
    return ReplicaView(
        replica.name,
        _RIGHTS[told.right],
        _why_not(replica, request, told.right, needs, free, at),
        needs,
        free,
        "blocks" if replica.in_blocks else "slots",
        told.held,
        told.cost,
        told.ttft,
    )


def _why_not(  # noqa: PLR0911, PLR0917 - one reason a line, and all that they are told from
    replica: Replica, request: Request, right: int, needs: int, free: int, at: float
) -> str:
    """In the order in which admission asks."""
    if replica.report is None:
        return "it has not reported yet"
    if not replica.healthy:
        return "it is down"
    if at < replica.backoff_until:
        return f"it is left alone for {replica.backoff_until - at:.1f} s: it was busy, or is an outlier"
    if right != NO:
        return ""
    if replica.num_in_flight >= replica.slots:
        return f"all its {replica.slots} slots are taken"
    if replica.says_full and replica.in_blocks:
        return "it says that its KV cache is full and requests wait in it"
    if needs > free:
        return f"{needs} needed, {free} free"
    if replica.paced:
        return f"{replica.pending_prompt} prompt tokens are not computed yet: lower tiers add theirs when they are"
    return f"{free} are free, but floors of other tiers hold them"


def _span(pool: Pool) -> str:
    most = "" if pool.prompt_below >= UNLIMITED else f" to below {pool.prompt_below}"
    return f"of {pool.prompt_from}{most} tokens" if most or pool.prompt_from else "of any length"


def _refused(reason: Reason, detail: str) -> str:
    text = REASONS[reason].text
    return f"{text}: {detail}" if detail else text
