"""May this request go to that replica now? Reservations, floors, lending of idle floors, pacing of prompts.

A tier's floor is its own at any time. What lies idle of a floor is lent only up to what running work is predicted
(90 % bound) to give back within the lender's `wait`, so that a lender whose traffic returns waits no longer than that.
An empty replica is lent whole: what fits it only by borrowing would else wait for ever beside idle room.
"""

from math import ceil
from typing import Final

from plimsoll.engine.steptime import StepTime
from plimsoll.governor.estimates import Histogram
from plimsoll.governor.floors import Floors
from plimsoll.governor.promptfloors import PromptFloors
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.servicefloors import ServiceFloors

NO: Final = 0
OWN_FLOOR: Final = 1  # within the lane's own floor
FREE: Final = 2  # beyond it, into what no floor holds
LENT: Final = 3  # beyond it, into the idle floors of others

PROMPT_WORK: Final = 0.05  # of an output token a prompt token, in predictions of how long units stay booked
UNKNOWN_OUTPUT: Final = 512  # tokens reserved where neither client nor history says how many


class Lending:
    """Predicts when booked units come back, and says how much idle floor may be lent. One a pool."""

    def __init__(
        self,
        waits: list[float],
        full_step: float | None,
        prompts: PromptFloors | None = None,
        service: ServiceFloors | None = None,
    ) -> None:
        self.prompts = PromptFloors([0.0] * len(waits), waits) if prompts is None else prompts
        self.service = ServiceFloors([], [0.0] * len(waits)) if service is None else service
        self.width = max(max(waits, default=5.0) / 32.0, 0.01)  # s a time bucket
        self.num_buckets = [int(wait / self.width) for wait in waits]  # a lender's wait, rounded down
        self.by_wait = sorted(range(len(waits)), key=self.num_buckets.__getitem__)
        self.closed = [False] * len(waits)  # by lane: a budget there forbids to lend on time
        # Seconds that a unit of work stays booked: observed, before that a full engine's step, else not known.
        self.held = Histogram(20, 1000)
        self.held_bound = self.held.follow(9, 10)
        self.full_step = full_step

    def book(self, request: Request, at: float) -> None:
        """Predict when the request's units and its slot come back."""
        held = self.held_bound.upper()
        if held is None:
            held = self.full_step
        if held is None:
            request.release_bucket = -1
            return
        request.release_bucket = int((at + held * work_of(request)) / self.width) + 1  # rounded up: a bound

    def unbook(self, request: Request) -> None:
        """Take the prediction away; call before the units are given back or grow."""
        request.release_bucket = -1

    def finished(self, request: Request, at: float) -> None:
        """Learn from how long it really stayed."""
        self.held.add((at - request.dispatched_at) / work_of(request))

    def allows(self, replica: Replica, room: Floors, borrower: int, left: int, at: float) -> bool:
        """Whether what is `left` when the borrower has taken its part, and releases, serve all lenders in time."""
        now = int(at / self.width)
        owed = 0
        for lane in self.by_wait:
            idle = room.own(lane)
            if lane == borrower or idle <= 0:
                continue
            owed += idle
            if owed <= left:
                continue
            last = now if self.closed[lane] else now + self.num_buckets[lane]
            if owed > left + replica.released_between(now + 1, last, in_slots=room is replica.slot_room):
                return False
        return True


def work_of(request: Request) -> float:
    """Work in output tokens that a request's booking stands for."""
    return max(1.0, request.output_tokens + PROMPT_WORK * request.prompt_tokens)


def fits(replica: Replica, request: Request, lending: Lending, at: float) -> int:
    """NO, or by which right the request may go to that replica now. The caller has checked that it is routable."""
    if replica.num_in_flight >= replica.slots or (replica.says_full and replica.in_blocks):
        return NO
    free = replica.limit - replica.reserved
    need = replica.units_for(request)
    if need > free:
        return NO
    if replica.unseen:
        replica.forget_computed(at)
    lane = request.lane
    slots = replica.slot_room
    within = need <= replica.room.own(lane) and (slots is None or slots.own(lane) > 0)
    if (lane > 0 or request.late or lending.service.gives_way(lane)) and _must_pace(
        replica, request, lending, at, within_floor=within
    ):
        replica.paced = True
        return NO
    if within:
        return OWN_FLOOR
    empty = replica.num_in_flight == 0  # nothing runs that could give back more: now, or never
    right = _right(replica, replica.room, lane, need, free, lending, at, empty=empty)
    if right == NO or slots is None:
        return right
    slot_right = _right(replica, slots, lane, 1, replica.slots - replica.num_in_flight, lending, at, empty=empty)
    return NO if slot_right == NO else max(right, slot_right)


def _right(  # noqa: PLR0917 - as often as there are replicas, and keywords cost time
    replica: Replica, room: Floors, lane: int, need: int, free: int, lending: Lending, at: float, *, empty: bool
) -> int:
    """By which right so much of one kind of room may be taken."""
    own = max(0, room.own(lane))
    if need <= own:
        return OWN_FLOOR
    left = free - need
    if room.idle - own <= left:
        return FREE
    return LENT if empty or lending.allows(replica, room, lane, left, at) else NO


def _must_pace(replica: Replica, request: Request, lending: Lending, at: float, *, within_floor: bool) -> bool:
    """Whether prompts sent there and not computed yet leave no room for another one of a lower tier.

    Inside the engine all prompts wait in one queue: what a lower tier piles up there the highest tier stands behind.
    So a lower tier adds only what one step computes, or within its floor one prompt beyond that; alone it may always,
    but one that takes several steps only within its floor of computation (`promptfloors`).
    """
    if replica.pending_prompt:
        more = 0 if within_floor else request.prompt_tokens
        if replica.pending_prompt + more > replica.prompt_limit:
            return True
    return waits_for_computation(replica, request, lending, at)


def waits_for_computation(replica: Replica, request: Request, lending: Lending, at: float) -> bool:
    """Whether it has a long prompt that may not be started there now, whatever room there is. An empty replica is
    lent whole."""
    if request.lane == 0 or request.prompt_tokens <= replica.prompt_limit or replica.num_in_flight == 0:
        return False
    tokens = replica.pending_prompt + request.prompt_tokens
    return not lending.prompts.may_start(request.lane, tokens, lending.closed, at)


def floors_of(shares: list[float], units: int, *, in_blocks: bool) -> list[int]:
    """Units of a replica that each lane holds as its floor."""
    if in_blocks:
        return [int(share * units) for share in shares]
    return _by_largest_remainder(shares, units)


def _by_largest_remainder(shares: list[float], slots: int) -> list[int]:
    """Slots by largest remainder, what no tier holds being a party too; then one each where slots suffice."""
    quotas = [share * slots for share in [*shares, max(0.0, 1.0 - sum(shares))]]
    seats = [int(quota) for quota in quotas]
    order = sorted(range(len(quotas)), key=lambda i: (seats[i] - quotas[i], i))
    for index in order[: slots - sum(seats)]:
        seats[index] += 1
    floors = seats[:-1]
    wanting = [i for i, share in enumerate(shares) if share > 0 and floors[i] == 0]
    if slots >= sum([share > 0 for share in shares]):
        for index in wanting:
            floors[index] = 1
            if sum(floors) > slots:
                floors[floors.index(max(floors))] -= 1
    return floors


def reserved_output(max_tokens: int, usual: float | None, room: int | None, *, strict: bool) -> int:
    """Output tokens to reserve for one choice: `usual` is a high quantile of the tenant's outputs, `room` what the
    context leaves after the prompt; None where not known."""
    if strict:
        wanted = max_tokens or (room if room is not None else UNKNOWN_OUTPUT)
    else:
        high = ceil(usual) if usual is not None else (max_tokens or UNKNOWN_OUTPUT)
        wanted = min(max_tokens, high) if max_tokens else high
    return wanted if room is None else max(0, min(wanted, room))


def full_step(steps: StepTime | None, max_num_seqs: int, context: int) -> float | None:
    """Seconds a token on a replica that is full: the bound on how long units stay before anything was observed."""
    return None if steps is None else steps.decode(max_num_seqs, context)
