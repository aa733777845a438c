"""What the governor tells the hands. Imperative, frozen, each with its reason."""

from enum import StrEnum

from msgspec import Struct

from plimsoll.ledger.entry import Entry
from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Reason


class RunPlugins(Struct, frozen=True, gc=False, tag=True):
    """Ask these plugins about the request, in order, and then tell what came of it with RequestArrived."""

    request_id: int
    plugins: tuple[str, ...]
    dropped: tuple[str, ...] = ()  # those that the ladder leaves out


class Reject(Struct, frozen=True, gc=False, tag=True):
    """Refuse on arrival. A Settle for the same request follows in the same answer."""

    request_id: int
    reason: Reason
    retry_after: float = 0.0  # s; 0: none can be promised, no header is sent
    detail: str = ""  # numbers for the message: "prompt 40000 tokens, largest context 32768"


class Enqueue(Struct, frozen=True, gc=False, tag=True):
    """Hold the request; a Dispatch, Shed or Expire will come, or the client cancels."""

    request_id: int
    tier: str
    reason: Reason  # why it must wait
    degraded: str = ""  # what was taken from it; "": nothing


class Dispatch(Struct, frozen=True, gc=False, tag=True):
    """Send it to that replica now."""

    request_id: int
    pool: str
    replica: str
    tier_served: str
    reason: Reason
    reserved_output_tokens: int  # send ReservationOutgrown when the output passes this; 0: nothing was reserved
    max_output_tokens: int = 0  # 0: leave the client's own; else the degraded cap to write into the request
    model: str = ""  # "": leave the client's own
    priority: int | None = None  # for engines that schedule by priority
    degraded: str = ""  # what was taken from it; "": nothing
    attempt: int = 1
    prefill: str = ""  # the engine that computes the prompt first; "": the replica does
    drafts: bool = True  # False: ask the engine not to guess tokens for it


class Shed(Struct, frozen=True, gc=False, tag=True):
    """Take it from the queue and answer with the reason."""

    request_id: int
    reason: Reason
    retry_after: float = 0.0


class Expire(Struct, frozen=True, gc=False, tag=True):
    """Its time in the queue is over; answer with the reason."""

    request_id: int
    reason: Reason
    retry_after: float = 0.0


class Fail(Struct, frozen=True, gc=False, tag=True):
    """No further attempt after AttemptFailed; answer with the reason. A Settle follows."""

    request_id: int
    reason: Reason
    retry_after: float = 0.0


class Evict(Struct, frozen=True, gc=False, tag=True):
    """End a dispatched request; the hands answer with RequestFinished(evicted)."""

    request_id: int
    reason: Reason


class WakeAt(Struct, frozen=True, gc=False, tag=True):
    """Send TimerFired at that instant; replaces any earlier WakeAt."""

    at: float


class MoveStep(StrEnum):
    """How far a replica on its way from one pool to another is."""

    DRAINING = "draining"  # nothing new goes there; it ends what it runs
    MOVED = "moved"  # it serves the other pool from now on
    KEPT = "kept"  # it did not end in time what it runs, and stays


class MoveReason(StrEnum):
    """Why a replica is to serve another pool."""

    DEMAND = "demand"  # the taker has more to do for each of its replicas
    BOUNDS = "bounds"  # the policy says how many there may be
    NONE_UP = "none_up"  # the taker has none that answers


class Reassign(Struct, frozen=True, gc=False, tag=True):
    """A replica serves another pool. The governor has done it; the hands write it down."""

    at: float
    replica: str
    from_pool: str
    to_pool: str
    step: MoveStep
    reason: MoveReason
    num_from: int  # replicas that the pool has now
    num_to: int
    work_from: float  # what it has to do, in replicas: a running mean
    work_to: float


class Settle(Struct, frozen=True, gc=False, tag=True):
    """One row and its ledger entries, made once, together; written before the client's last byte is forwarded."""

    record: Record
    entries: tuple[Entry, ...]


Decision = RunPlugins | Reject | Enqueue | Dispatch | Shed | Expire | Fail | Evict | WakeAt | Settle | Reassign
