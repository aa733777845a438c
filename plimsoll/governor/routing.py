"""Which replica takes a request, among those that have room for it.

`load`: the least predicted cost in seconds of engine time — the prompt work before its first token, what a prefix
held there would save, and its output at the step time of the batch it would join. Without an engine profile the same
in token equivalents. `predicted` corrects that by what each replica has shown (`predicting`). Ties go to the lower
index, so that equal histories route equally.
"""

from typing import Final

from plimsoll.governor.admission import NO, fits
from plimsoll.governor.learned import facts_at, told
from plimsoll.governor.pool import Pool
from plimsoll.governor.prefixes import Holders
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.rules import Rule
from plimsoll.policy.policy import CAPABLE

DECODE_WEIGHT: Final = 3.0  # prompt tokens whose work equals one sequence's share of a decode step, without a profile
STALE: Final = 5.0  # s since a report, beyond which it is chosen among two only
WARM_UP: Final = 30.0  # s after it came up …
COLD: Final = 2.0  # … in which its cost is up to so much higher
HOTSPOT_RATIO: Final = 1.5  # a replica this much busier than the mean …
UNSTEADY: Final = 4.0  # what the cost of a replica that stalls is multiplied by, for tiers that prefer capable ones
HOTSPOT_SLACK: Final = 4  # … by at least so many requests draws nobody by its cache


def choose(pool: Pool, request: Request, at: float) -> tuple[Replica | None, int]:
    """The best replica that has room now and by which right (`admission`); None and NO where none has."""
    if pool.routing in {"load", "predicted"}:
        return _by_load(pool, request, at)
    if pool.routing == "round_robin":
        return _by_turn(pool, request, at)
    if pool.routing_rule is not None:
        return _by_rule(pool, pool.routing_rule, request, at)
    return _by_requests(pool, request, at)


def open_to(replica: Replica, request: Request, at: float) -> bool:
    """Whether the replica may be sent this request at all."""
    return replica.routable(at) and not replica.bit & request.tried


def _by_load(pool: Pool, request: Request, at: float) -> tuple[Replica | None, int]:
    best: Replica | None = None
    best_right = NO
    best_cost = 0.0
    holders: Holders | None = None
    first_holders = 0
    if request.prefix_hashes:
        holders = pool.prefixes.holders(request.prefix_hashes)
        request.holders = holders
        if holders.num:
            first_holders = holders.masks[0]
    crowd = _crowd(pool)
    loading = _loading(pool, request, crowd) if request.adapter else 0.0
    has_events = request.matched is not None
    avoids = pool.has_unsteady and request.tier.prefer == CAPABLE
    looked_at = pool.replicas
    if pool.routing == "predicted":
        looked_at = _two_if_stale(pool, request, at)
    for replica in looked_at:
        if not open_to(replica, request, at):
            continue
        right = fits(replica, request, pool.lending, at)
        if right == NO:
            continue
        cached = 0
        if holders is not None and replica.bit & first_holders and replica.num_in_flight <= crowd:
            cached = holders.held(replica.bit) * request.prefix_block_tokens
        if has_events and replica.num_in_flight <= crowd:
            cached = request.held_by(replica.name, cached)
        cost = _cost(pool, replica, request, cached, at)
        if loading and not _has_loaded(replica, request.adapter):
            cost += loading
        if avoids and replica.unsteady:
            cost *= UNSTEADY
        if best is None or cost < best_cost:
            best, best_right, best_cost = replica, right, cost
    return best, best_right


def _loading(pool: Pool, request: Request, crowd: float) -> float:
    """What it costs to go where the request's adapter must be loaded first; nothing where those that have it are
    crowded: an adapter that everybody asks for spreads."""
    for replica in pool.replicas:
        if replica.num_in_flight <= crowd and _has_loaded(replica, request.adapter):
            return pool.adapter_cost
    return 0.0


def _has_loaded(replica: Replica, adapter: str) -> bool:
    return replica.loaded is not None and replica.loaded.holds(adapter)


def _two_if_stale(pool: Pool, request: Request, at: float) -> list[Replica]:
    """Where reports are old the best by them is the best for everybody who routes: two by lot, then the better one
    (https://doi.org/10.1109/71.963420). The lot is the request's number, so that equal histories route equally."""
    up = [replica for replica in pool.replicas if open_to(replica, request, at)]
    if len(up) < 3 or max([at - replica.reported_at for replica in up]) <= STALE:
        return up
    lot = request.sequence * 2654435761 % 4294967296  # Knuth's multiplicative hash: its high bits are well mixed
    first = (lot >> 20) % len(up)
    second = (lot >> 8 & 4095) % (len(up) - 1)
    return [up[first], up[second if second < first else second + 1]]


def _slow_start(replica: Replica, at: float) -> float:
    """What its cost is multiplied by: a replica that has just come up warms up before it takes its full share."""
    age = at - replica.started_at
    return 1.0 if age >= WARM_UP else 1.0 + COLD * (1.0 - max(age, 0.0) / WARM_UP)


def _cost(pool: Pool, replica: Replica, request: Request, cached: int, at: float) -> float:
    prompt = replica.pending_prompt + max(1, request.prompt_tokens - cached)
    output = request.expected_output * request.num_choices
    sequences = replica.num_in_flight + request.num_choices
    predictor = replica.predictor
    if predictor is not None:
        context = replica.context + request.prompt_tokens
        own, pending = max(1, request.prompt_tokens - cached), replica.pending_prompt
        ttft = predictor.ttft_now(own, pending, replica.num_in_flight, replica.context, at)
        if replica.learned is not None:
            ttft = replica.learned.ttft(facts_of(replica, ttft, own, cached, at))
        itl = predictor.itl(sequences, context)
        return (ttft + output * itl) * _slow_start(replica, at)
    if pool.steps is None:
        return prompt + DECODE_WEIGHT * output * sequences
    step = pool.steps.decode(sequences, replica.context + request.prompt_tokens)
    return prompt * pool.prompt_token_time + output * step


def facts_of(replica: Replica, predicted: float, own: int, cached: int, at: float) -> list[float]:
    """What is known of a request that would be sent there now, of whose prompt so many tokens are to be computed."""
    slowness = 0.0 if replica.predictor is None else replica.predictor.slowness
    return facts_at(
        predicted, own, cached, pending=replica.pending_prompt, running=replica.num_in_flight,
        context=replica.context, slowness=slowness, reported=told(replica.report), report_age=at - replica.reported_at,
    )  # fmt: skip


class Considered:
    """What routing makes of one replica, for those who explain it."""

    def __init__(self, right: int, held: int, cost: float | None, ttft: float | None) -> None:
        self.right = right
        self.held = held
        self.cost = cost
        self.ttft = ttft


def considered(pool: Pool, replica: Replica, request: Request, at: float) -> Considered:
    """By which right it may go there now, and by which cost that replica is compared with the others."""
    right = fits(replica, request, pool.lending, at) if open_to(replica, request, at) else NO
    held = held_tokens(pool, replica, request)
    cost: float | None = None
    if pool.routing in {"load", "predicted"}:
        crowd = _crowd(pool)
        cost = _cost(pool, replica, request, held if replica.num_in_flight <= crowd else 0, at)
        if request.adapter and not _has_loaded(replica, request.adapter):
            cost += _loading(pool, request, crowd)
        if replica.unsteady and request.tier.prefer == CAPABLE:
            cost *= UNSTEADY
    elif pool.routing_rule is not None:
        cost = pool.routing_rule.cost(request, replica, held, at)
    elif pool.routing == "least_requests":
        cost = float(replica.num_in_flight)
    ttft: float | None = None
    if replica.predictor is not None:
        ahead = replica.pending_prompt + max(1, request.prompt_tokens - held)
        ttft = replica.predictor.ttft(ahead, replica.num_in_flight, replica.context)
        if replica.learned is not None:
            ttft = replica.learned.ttft(facts_of(replica, ttft, ahead - replica.pending_prompt, held, at))
    return Considered(right, held, cost, ttft)


def _crowd(pool: Pool) -> float:
    """Requests on a replica beyond which its cache draws nobody."""
    return HOTSPOT_RATIO * pool.num_in_flight / pool.num_serving + HOTSPOT_SLACK


def held_tokens(pool: Pool, replica: Replica, request: Request) -> int:
    """Prompt tokens of the request that the replica should hold."""
    held = 0
    if request.prefix_hashes:
        held = pool.prefixes.holders(request.prefix_hashes).held(replica.bit) * request.prefix_block_tokens
    if request.matched is not None:
        held = request.held_by(replica.name, held)
    return min(held, request.prompt_tokens)


def _by_rule(pool: Pool, rule: Rule, request: Request, at: float) -> tuple[Replica | None, int]:
    """Another package's choice; by load where it fails."""
    best: Replica | None = None
    best_right = NO
    best_cost = 0.0
    for replica in pool.replicas:
        if not open_to(replica, request, at):
            continue
        right = fits(replica, request, pool.lending, at)
        if right == NO:
            continue
        cost = rule.cost(request, replica, held_tokens(pool, replica, request), at)
        if cost is None:
            return _by_load(pool, request, at)
        if best is None or cost < best_cost:
            best, best_right, best_cost = replica, right, cost
    return best, best_right


def _by_requests(pool: Pool, request: Request, at: float) -> tuple[Replica | None, int]:
    best: Replica | None = None
    best_right = NO
    for replica in pool.replicas:
        if best is not None and replica.num_in_flight >= best.num_in_flight:
            continue
        if not open_to(replica, request, at):
            continue
        right = fits(replica, request, pool.lending, at)
        if right != NO:
            best, best_right = replica, right
    return best, best_right


def _by_turn(pool: Pool, request: Request, at: float) -> tuple[Replica | None, int]:
    num = len(pool.replicas)
    for offset in range(num):
        replica = pool.replicas[(pool.turn + offset) % num]
        if not open_to(replica, request, at):
            continue
        right = fits(replica, request, pool.lending, at)
        if right != NO:
            pool.turn = (replica.index + 1) % num
            return replica, right
    return None, NO
