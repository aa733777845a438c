"""A governor with its replicas up, and short ways to tell it things."""

from collections.abc import Sequence
from typing import Any, TypeVar

from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.decisions import Decision, Dispatch, Reject, Settle
from plimsoll.governor.events import (
    AttemptFailed,
    FirstToken,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
    RequestFinished,
    TimerFired,
)
from plimsoll.governor.governor import Governor
from plimsoll.policy.policy import Policy
from plimsoll.requestlog.record import Record
from plimsoll.slo.measured import Timing
from plimsoll.slo.outcome import Outcome, Reason
from tests.laws.histories import START

T = TypeVar("T", bound=Decision)


class Service:
    """`at` is seconds after START in every call."""

    def __init__(
        self, policy: Policy, *, kv_blocks: int | None = 1000, profiles: dict[str, EngineProfile] | None = None
    ) -> None:
        self.governor = Governor(policy, profiles)
        self.kv_blocks = kv_blocks
        self.num = 0
        self.report(0.0)

    def report(self, at: float, down: Sequence[str] = (), **told: Any) -> list[Decision]:
        names = [replica for pool in self.governor.policy.pools for replica in pool.replicas]
        told = {"kv_blocks": self.kv_blocks, "block_size": None if self.kv_blocks is None else 16} | told
        reports = tuple(ReplicaReport(name, name not in down, START + at, **told) for name in dict.fromkeys(names))
        return self.governor.handle(ReplicasReported(START + at, reports))

    def ask(self, at: float, tenant: str = "ada", prompt: int = 160, output: int = 160, **more: Any) -> list[Decision]:
        self.num += 1
        told: dict[str, Any] = {"model": "m", "prompt_tokens": prompt, "max_output_tokens": output, **more}
        return self.governor.handle(RequestArrived(START + at, self.num, tenant, **told))

    def first(self, at: float, request_id: int) -> list[Decision]:
        return self.governor.handle(FirstToken(START + at, request_id))

    def done(self, at: float, request_id: int, output: int = 10, began: float = 0.0, **more: Any) -> list[Decision]:
        timing = Timing(START + began, START + at, output) if began else Timing()
        told: dict[str, Any] = {"outcome": Outcome.COMPLETED, "reason": Reason.DONE, "prompt_tokens": 160, **more}
        return self.governor.handle(
            RequestFinished(START + at, request_id, timing=timing, output_tokens=output, **told)
        )

    def failed(self, at: float, request_id: int, reason: Reason, retry_after: float = 0.0) -> list[Decision]:
        return self.governor.handle(AttemptFailed(START + at, request_id, reason, retry_after))

    def timer(self, at: float) -> list[Decision]:
        return self.governor.handle(TimerFired(START + at))


def only(kind: type[T], decisions: Sequence[Decision]) -> T:
    """The one decision of that kind."""
    found = [decision for decision in decisions if isinstance(decision, kind)]
    assert len(found) == 1, decisions
    return found[0]


def all_of(kind: type[T], decisions: Sequence[Decision]) -> list[T]:
    """Those of that kind."""
    return [decision for decision in decisions if isinstance(decision, kind)]


def row(decisions: Sequence[Decision]) -> Record:
    """The one settled row."""
    return only(Settle, decisions).record


def refused(decisions: Sequence[Decision]) -> tuple[Reason, str]:
    """Why, and the words beside it."""
    reject = only(Reject, decisions)
    assert row(decisions).reason is reject.reason
    return reject.reason, reject.detail


def replica_of(decisions: Sequence[Decision]) -> str:
    """Where the one dispatch goes."""
    return only(Dispatch, decisions).replica
