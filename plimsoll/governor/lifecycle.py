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

A request that fits at once goes from received to dispatched. In flight means dispatched or streaming. The last nine are
outcomes (`slo/outcome.py`), spelt the same.
"""

from enum import StrEnum
from typing import Final

from plimsoll.errors import IllegalTransition


class State(StrEnum):
    """Where a request is; the last nine are ends."""

    RECEIVED = "received"
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    STREAMING = "streaming"
    REJECTED = "rejected"
    SHED = "shed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    EVICTED = "evicted"
    INTERRUPTED = "interrupted"


class Step(StrEnum):
    """What happens to a request."""

    REJECT = "reject"
    ENQUEUE = "enqueue"
    DISPATCH = "dispatch"
    SHED = "shed"
    EXPIRE = "expire"
    CANCEL = "cancel"
    FIRST_TOKEN = "first_token"
    OUTGROW = "outgrow"
    REQUEUE = "requeue"
    COMPLETE = "complete"
    FAIL = "fail"
    ABORT = "abort"
    EVICT = "evict"
    INTERRUPT = "interrupt"


_ENDS_IN_FLIGHT: Final[dict[Step, State]] = {
    Step.COMPLETE: State.COMPLETED,
    Step.FAIL: State.FAILED,
    Step.ABORT: State.ABORTED,
    Step.EVICT: State.EVICTED,
    Step.INTERRUPT: State.INTERRUPTED,
}

TRANSITIONS: Final[dict[State, dict[Step, State]]] = {
    State.RECEIVED: {
        Step.REJECT: State.REJECTED,
        Step.ENQUEUE: State.QUEUED,
        Step.DISPATCH: State.DISPATCHED,
    },
    State.QUEUED: {
        Step.DISPATCH: State.DISPATCHED,
        Step.SHED: State.SHED,
        Step.EXPIRE: State.EXPIRED,
        Step.CANCEL: State.CANCELLED,
        Step.INTERRUPT: State.INTERRUPTED,
    },
    State.DISPATCHED: {
        Step.FIRST_TOKEN: State.STREAMING,
        Step.OUTGROW: State.DISPATCHED,  # an answer in one piece has no first token
        Step.REQUEUE: State.QUEUED,  # an attempt failed and no byte has reached the client
        **_ENDS_IN_FLIGHT,
    },
    State.STREAMING: {
        Step.OUTGROW: State.STREAMING,
        **_ENDS_IN_FLIGHT,
    },
}
"""The states that are not keys are ends: nothing follows."""

ENDS: Final[frozenset[State]] = frozenset(State) - frozenset(TRANSITIONS)


def next_state(request_id: int, state: State, step: Step) -> State:
    """The state that follows; raises IllegalTransition where the table has none."""
    row = TRANSITIONS.get(state)
    following = None if row is None else row.get(step)
    if following is None:
        raise IllegalTransition(request_id, state.value, step.value)
    return following
