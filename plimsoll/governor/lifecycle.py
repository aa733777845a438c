"""The life of a request: states, steps and next states in one table. Anything not in the table raises.

                    ┌───────── requeue ─────────┐
                    ▼                           │
    received ──► queued ──── dispatch ────► dispatched ── first_token ──► streaming
       │            │                           │                            │
     reject   shed, expire,             complete, fail,              complete, fail,
       │       cancel                    abort, evict                 abort, evict
       ▼            ▼                           ▼                            ▼
    rejected   shed, expired,       completed, failed, aborted, evicted; interrupted at recovery
               cancelled

A request that fits at once goes from received to dispatched. In flight means dispatched or streaming. The last nine
states are outcomes (`slo/outcome.py`), spelt the same. States and steps are small integers because every request
takes several steps and each is counted; STATES and STEPS have their names.
"""

from typing import Final

from plimsoll.errors import IllegalTransition

STATES: Final = (
    "received", "queued", "dispatched", "streaming",
    "rejected", "shed", "expired", "cancelled", "completed", "failed", "aborted", "evicted", "interrupted",
)  # fmt: skip
RECEIVED: Final = 0
QUEUED: Final = 1
DISPATCHED: Final = 2
STREAMING: Final = 3
REJECTED: Final = 4
SHED: Final = 5
EXPIRED: Final = 6
CANCELLED: Final = 7
COMPLETED: Final = 8
FAILED: Final = 9
ABORTED: Final = 10
EVICTED: Final = 11
INTERRUPTED: Final = 12

STEPS: Final = (
    "reject", "enqueue", "dispatch", "shed", "expire", "cancel", "first_token", "outgrow", "requeue",
    "complete", "fail", "abort", "evict", "interrupt",
)  # fmt: skip
REJECT: Final = 0
ENQUEUE: Final = 1
DISPATCH: Final = 2
TAKE_OUT: Final = 3  # "shed"
EXPIRE: Final = 4
CANCEL: Final = 5
FIRST_TOKEN: Final = 6
OUTGROW: Final = 7
REQUEUE: Final = 8
COMPLETE: Final = 9
FAIL: Final = 10
ABORT: Final = 11
EVICT: Final = 12
INTERRUPT: Final = 13

_ENDS_IN_FLIGHT: Final = {
    COMPLETE: COMPLETED, FAIL: FAILED, ABORT: ABORTED, EVICT: EVICTED, INTERRUPT: INTERRUPTED,
}  # fmt: skip
TRANSITIONS: Final[dict[int, dict[int, int]]] = {
    RECEIVED: {REJECT: REJECTED, ENQUEUE: QUEUED, DISPATCH: DISPATCHED},
    QUEUED: {
        DISPATCH: DISPATCHED,
        TAKE_OUT: SHED,
        EXPIRE: EXPIRED,
        CANCEL: CANCELLED,
        INTERRUPT: INTERRUPTED,
    },
    DISPATCHED: {
        FIRST_TOKEN: STREAMING,
        OUTGROW: DISPATCHED,  # an answer in one piece has no first token
        REQUEUE: QUEUED,  # an attempt failed and no byte has reached the client
        **_ENDS_IN_FLIGHT,
    },
    STREAMING: {OUTGROW: STREAMING, **_ENDS_IN_FLIGHT},
}
"""The states that are not keys are ends: nothing follows."""

_NEXT: Final[list[int]] = [
    TRANSITIONS.get(state, {}).get(step, -1) for state in range(len(STATES)) for step in range(len(STEPS))
]
_NUM_STEPS: Final = 14


def next_state(request_id: int, state: int, step: int) -> int:
    """The state that follows; raises IllegalTransition where the table has none."""
    following = _NEXT[state * _NUM_STEPS + step]
    if following < 0:
        raise IllegalTransition(request_id, STATES[state], STEPS[step])
    return following
