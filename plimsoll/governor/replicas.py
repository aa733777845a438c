"""What the governor knows of one replica: what its reports said, and what was dispatched to it and is not over.

Capacity is counted in *units*: KV blocks where the engine or its profile tells them, else slots (concurrent
requests). Each lane (tier queue) holds a floor of units (`room`), and of slots (`slot_room`) where both can run out.
"""

from heapq import heappop, heappush
from typing import Final

from msgspec.structs import astuple

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.adapters import LoadedAdapters
from plimsoll.governor.events import ReplicaReport
from plimsoll.governor.floors import Floors
from plimsoll.governor.learned import Learned
from plimsoll.governor.predicting import Predictor
from plimsoll.governor.request import Request

_astuple: Final = astuple  # bound once: compiled code looks names of the uncompiled world up by their text

UNLIMITED: Final = 1 << 40
DEFAULT_SLOTS: Final = 256  # vLLM's own default, where neither engine, profile nor policy says anything
DEFAULT_STEP: Final = 2048  # prompt tokens of one step, where no profile says
PROMPT_PATIENCE: Final = 30.0  # s after which a prompt without a first token no longer counts as work to come
FULL_KV_USAGE: Final = 0.95
FIRST_BACKOFF: Final = 0.5  # s for a busy engine that names no time; doubles up to
LONGEST_BACKOFF: Final = 8.0
LONGEST_ASKED: Final = 60.0  # s; of a Retry-After that asks for more, so much is believed: one answer may not retire it


class Replica:
    """One serving engine; `index` is its bit in masks, within its pool."""

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.bit = 1 << index
        # health, by reports and by what attempts met
        self.report: ReplicaReport | None = None  # None: it has not reported yet
        self.says_well = False  # in its last report, whatever attempts have met since
        self.told_blocks: int | None = None  # there: KV blocks, …
        self.told_block_size: int | None = None
        self.told_context: int | None = None  # … and the longest context
        self.reported_at = 0.0
        self.healthy = False
        self.says_full = False  # it queues for KV blocks, whatever our own count says
        self.leaving = False  # the policy no longer names it, or it goes to another pool: finishes what it runs
        self.away = False  # it serves another pool now (`poolsizing`); it is leaving as well
        self.backoff_until = 0.0
        self.num_busy = 0  # busy answers in a row
        self.started_at = 0.0  # it became healthy
        self.num_ended = 0  # since then or since it was taken out …
        self.error_ratio = 0.0  # … and a running mean of failures among them
        self.num_ejected = 0  # times it was taken out as an outlier
        self.stall_ratio: float | None = None  # share of long token gaps in the last week; None: not known
        self.variation: float | None = None  # of its speed at like load, as well
        self.unsteady = False  # … it is much higher than that of the pool's others
        self.num_drafted_anyway = 0  # answers for which it drafted though it was asked not to
        self.loaded: LoadedAdapters | None = None  # where the pool serves LoRA adapters
        self.predictor: Predictor | None = None  # where routing goes by prediction
        self.learned: Learned | None = None  # … and a log has taught what its profile does not know
        # capacity
        self.in_blocks = False
        self.block_size = 0  # tokens; 0: not known
        self.capacity = 0
        self.limit = 0  # capacity with oversubscription
        self.slots = 0  # concurrent requests at most
        self.prompt_limit = UNLIMITED  # prompt tokens to compute up to which lower tiers may add theirs
        self.paced = False  # somebody waits for prompts to be computed …
        self.watched_at = 0.0  # … and the timer is set for then
        self.room = Floors()  # units
        self.slot_room: Floors | None = None  # slots, where units are blocks and slots are bounded too
        # what is on it
        self.reserved = 0  # units
        self.num_in_flight = 0
        self.in_flight: dict[int, Request] = {}
        self.pending_prompt = 0  # prompt tokens dispatched and not computed yet, as far as we know
        self.unseen: list[tuple[float, int, Request]] = []  # prompts with no first token to come, by predicted end
        self.context = 0  # prompt and expected output of all in flight

    def routable(self, at: float) -> bool:
        """Whether requests may be sent there now."""
        return self.healthy and at >= self.backoff_until and not self.leaving

    def saturation(self) -> float:
        """How full it is, 1.0 = hold: by reservations and slots, or because it says so itself."""
        full = max(self.reserved / max(1, self.limit), self.num_in_flight / max(1, self.slots))
        return max(1.0, full) if self.says_full else full

    # --- what the hands saw ----------------------------------------------------------------------------------------

    def reported(self, report: ReplicaReport) -> None:
        """Its own word: the one thing that makes a replica healthy again."""
        was_healthy = self.healthy
        waiting: int | None
        usage: float | None
        # fmt: off
        (
            _, self.healthy, self.reported_at, _, waiting, usage, self.told_blocks, self.told_block_size, _, _, _,
            self.told_context, adapters, slots, _,
        ) = _astuple(report)
        # fmt: on
        if self.healthy and not was_healthy:
            self.started_at = self.reported_at
        if self.loaded is not None:
            if was_healthy and not self.healthy:
                self.loaded.forget()
            self.loaded.told(adapters, slots)
        self.report = report
        self.says_well = self.healthy
        self.says_full = bool(waiting) and usage is not None and usage >= FULL_KV_USAGE

    def refused(self) -> None:
        """A connection was refused or broke: nothing more goes there until it reports well again."""
        self.healthy = False

    def busy(self, at: float, retry_after: float) -> None:
        """It said that it is busy: alive, but left alone for a while."""
        self.num_busy += 1
        doubled = min(FIRST_BACKOFF * 2.0 ** min(self.num_busy - 1, 10), LONGEST_BACKOFF)
        pause = min(retry_after, LONGEST_ASKED) or doubled
        self.backoff_until = max(self.backoff_until, at + pause)

    # --- capacity --------------------------------------------------------------------------------------------------

    def set_capacity(self, profile: EngineProfile | None, max_concurrency: int | None, *, reserve_kv: bool) -> None:
        """Take capacity from the last report, else from the profile, else count slots; `oversubscribe` comes next."""
        blocks, block_size = self.told_blocks, self.told_block_size
        if profile is not None:
            blocks = profile.num_blocks * profile.num_engines if blocks is None else blocks
            block_size = profile.block_size if block_size is None else block_size
        if block_size is not None:
            self.block_size = block_size
        self.in_blocks = reserve_kv and bool(blocks) and self.block_size > 0
        self.slots = self._slots(profile, max_concurrency, reserve_kv=reserve_kv)
        if reserve_kv:
            self.prompt_limit = DEFAULT_STEP if profile is None else profile.max_batched_tokens
        else:
            self.prompt_limit = UNLIMITED
        self.capacity = blocks if self.in_blocks and blocks is not None else self.slots

    def oversubscribe(self, ratio: float) -> None:
        """How far reservations may exceed capacity; where they do more than that, nothing is sent until they do not."""
        self.limit = int(self.capacity * (1.0 + ratio)) if self.in_blocks else self.capacity

    def _slots(self, profile: EngineProfile | None, max_concurrency: int | None, *, reserve_kv: bool) -> int:
        if max_concurrency is not None:
            return max_concurrency
        if not reserve_kv:
            return UNLIMITED  # the engine queues for itself
        if profile is not None:
            return profile.max_num_seqs * profile.num_engines
        return UNLIMITED if self.in_blocks else DEFAULT_SLOTS

    def set_floors(self, floors: list[int], slot_floors: list[int]) -> None:
        """New floors by lane, of units and (where any holds one) of slots; use is counted afresh from what runs."""
        used = [0] * len(floors)
        slots_used = [0] * len(floors)
        self.reserved = 0
        for request in self.in_flight.values():
            request.units = self.units_for(request)
            used[request.lane] += request.units
            slots_used[request.lane] += 1
            self.reserved += request.units
        self.room.hold(floors, used)
        self.slot_room = None
        if any(slot_floors):
            self.slot_room = Floors()
            self.slot_room.hold(slot_floors, slots_used)

    def units_for(self, request: Request) -> int:
        """Units that the request needs here; a replica alone is enough for any (its engine has no more to give)."""
        if not self.in_blocks:
            return 1
        if request.sized_for != self.block_size:
            tokens = request.prompt_tokens + request.output_tokens
            request.blocks = max(1, request.num_choices * -(-tokens // self.block_size))
            request.sized_for = self.block_size
        return min(request.blocks, self.limit)

    # --- when it comes back ----------------------------------------------------------------------------------------

    def released_between(self, first: int, last: int, *, in_slots: bool) -> int:
        """Units (or slots) that are predicted back in the time buckets from `first` to `last`."""
        num = 0
        for request in self.in_flight.values():  # asked far less often than requests come and go
            if first <= request.release_bucket <= last:
                num += 1 if in_slots else request.units
        return num

    def back_by(self, lacking: int, *, in_slots: bool) -> int | None:
        """The time bucket by which so much is predicted back; None: not so much is predicted."""
        if lacking <= 0:
            return 0
        releases = [(one.release_bucket, one.units) for one in self.in_flight.values() if one.release_bucket > 0]
        for bucket, units in sorted(releases):
            lacking -= 1 if in_slots else units
            if lacking <= 0:
                return bucket
        return None

    # --- booking ---------------------------------------------------------------------------------------------------

    def book(self, request: Request, units: int) -> None:
        """Take the request on with so many units."""
        request.units = units
        if self.in_blocks:
            request.blocks_reserved = max(request.blocks_reserved, units)
        self.room.use(request.lane, units)
        self.reserved += units
        if self.slot_room is not None:
            self.slot_room.use(request.lane, 1)
        self.in_flight[request.id] = request
        self.num_in_flight += 1
        self.pending_prompt += request.pending_prompt
        self.context += request.prompt_tokens + request.expected_output

    def grow(self, request: Request, units: int) -> None:
        """Book what the request has outgrown; always, even beyond the limit."""
        more = units - request.units
        if more > 0:
            request.units = units
            request.blocks_reserved = max(request.blocks_reserved, units)
            self.room.use(request.lane, more)
            self.reserved += more

    def release(self, request: Request) -> None:
        """Give back all that the request holds; once, whatever ended it."""
        del self.in_flight[request.id]
        self.room.use(request.lane, -request.units)
        self.reserved -= request.units
        if self.slot_room is not None:
            self.slot_room.use(request.lane, -1)
        request.units = 0
        self.num_in_flight -= 1
        self.prompt_done(request)
        self.context -= request.prompt_tokens + request.expected_output

    def first_token_came(self, request: Request, seconds: float) -> None:
        """Hold what was predicted of a request here against the seconds that it took from dispatch on."""
        if self.predictor is not None:
            self.predictor.first_token(request.predicted_ttft, seconds, request.ttft_pace)
        if self.learned is not None:
            self.learned.first_token(request.learned_ttft, seconds)

    def prompt_done(self, request: Request) -> None:
        """Its first token came, or it is over: its prompt is no work to come."""
        self.pending_prompt -= request.pending_prompt
        request.pending_prompt = 0

    def forget_prompts(self, before_at: float) -> None:
        """Prompts sent before that instant count as computed: one that hangs must not hold up lower tiers for ever."""
        for request in self.in_flight.values():
            if request.pending_prompt and request.dispatched_at < before_at:
                self.prompt_done(request)

    def expect_prompt(self, request: Request, until_at: float) -> None:
        """No first token will tell when its prompt is computed: by then, as predicted."""
        heappush(self.unseen, (until_at, request.sequence, request))

    def forget_computed(self, at: float) -> None:
        """Prompts whose predicted end has passed are no work to come."""
        while self.unseen and self.unseen[0][0] <= at:
            request: Request = heappop(self.unseen)[2]
            if self.in_flight.get(request.id) is request:
                self.prompt_done(request)
