"""What rules of other packages see and must be able to do; a rule that fails costs nobody anything but its advice.

    class Slack:                                  # an order: who goes first among the next in fair turns
        def cost(self, request, replica, held, at) -> float: …       the lower the sooner
    class Coolest:                                # routing: which replica, among those with room
        def cost(self, request, replica, held, at) -> float: …       the lowest is taken
    class NightOnly:                              # admission: whether the request is taken at all
        def refuse(self, request, pool, at) -> str: …                "" takes it, else why not, for the client

A rule decides by what it is given and by what it remembers of earlier calls: no clock, no dice, no waiting, and it
changes nothing that it is given, or live and simulated answers would differ (laws 3 and 4). It is asked on every
request: microseconds count. How packages add rules: `policy/extensions.py`.
"""

from collections.abc import Sequence
from math import isnan
from typing import Any, Protocol

from plimsoll.governor.events import Criticality
from plimsoll.policy import extensions
from plimsoll.policy.policy import Order, RoutingRule, Scheduling


class RequestSeen(Protocol):
    """A request, as rules may look at it. Tokens of output are of one choice."""

    id: int
    tenant: str
    tier_name: str
    model: str
    adapter: str
    cause: str
    session: str
    criticality: Criticality
    prompt_tokens: int  # estimated
    num_choices: int
    expected_output: int
    output_tokens: int  # reserved
    arrived_at: float
    deadline_at: float  # inf: none
    bypassed: int  # times that later ones passed it


class ReplicaSeen(Protocol):
    """A replica, as rules may look at it."""

    name: str
    num_in_flight: int
    reserved: int  # in units: KV blocks or slots
    capacity: int
    pending_prompt: int  # prompt tokens that it has yet to compute, as far as is known
    context: int  # tokens of prompt and expected output of all in flight
    reported_at: float


class PoolSeen(Protocol):
    """A pool, as rules may look at it."""

    name: str
    num_waiting: int
    num_in_flight: int

    @property
    def replicas(self) -> Sequence[ReplicaSeen]:
        """All of them, whether they are up or not."""


class Rule:
    """One rule of another package, held at arm's length: what it raises is counted, and its advice then missing."""

    def __init__(self, kind: str, name: str) -> None:
        """Raises UsageError where no package adds it."""
        self.kind = kind
        self.name = name
        self.num_faults = 0
        self.last_fault = ""
        self._rule: Any = extensions.load(kind, name)

    def cost(self, request: RequestSeen, replica: ReplicaSeen, held: int, at: float) -> float | None:
        """By an order or a routing; `held` prompt tokens lie in the replica's cache. None: it failed."""
        try:
            cost = float(self._rule.cost(request, replica, held, at))
        except Exception as error:  # another package's: whatever it raises must not stop the service
            self._failed(error)
            return None
        if isnan(cost):
            self._failed(ValueError("cost is not a number"))
            return None
        return cost

    def refuses(self, request: RequestSeen, pool: PoolSeen, at: float) -> str:
        """By an admission: why not; "" where it takes the request, or failed."""
        try:
            return str(self._rule.refuse(request, pool, at))
        except Exception as error:  # as above
            self._failed(error)
            return ""

    def _failed(self, error: Exception) -> None:
        self.num_faults += 1
        self.last_fault = f"{type(error).__name__}: {error}"


class Rules:
    """Those of other packages that the policy in force names. What a rule has learnt stays while its name does."""

    def __init__(self) -> None:
        self.order: Rule | None = None
        self.routing: Rule | None = None
        self.admission: Rule | None = None

    def apply(self, scheduling: Scheduling) -> None:
        """Take over a (new) policy's. Raises UsageError where a rule cannot be had; then nothing changes."""
        order = _rule("order", scheduling.order, own=scheduling.order in set(Order), before=self.order)
        routing = _rule("routing", scheduling.routing, own=scheduling.routing in set(RoutingRule), before=self.routing)
        admission = _rule("admission", scheduling.admission, own=not scheduling.admission, before=self.admission)
        self.order, self.routing, self.admission = order, routing, admission

    def all(self) -> list[Rule]:
        """Those that are in force."""
        return [rule for rule in (self.order, self.routing, self.admission) if rule is not None]


def _rule(kind: str, name: str, *, own: bool, before: Rule | None) -> Rule | None:
    if own:
        return None
    return before if before is not None and before.name == name else Rule(kind, name)
