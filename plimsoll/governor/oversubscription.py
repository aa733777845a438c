"""How far what is reserved on a replica may exceed its capacity: by a stated ratio, or by a stated probability."""

from statistics import NormalDist

from plimsoll.governor.kvuse import KvUse
from plimsoll.governor.replicas import Replica
from plimsoll.policy.policy import Scheduling


class Oversubscription:
    """Of one pool. A spent budget closes it until it is whole."""

    def __init__(self) -> None:
        self.use: KvUse | None = None  # where a probability is stated
        self.closed = False
        self._ratio = 0.0
        self._deviations = 0.0  # of the normal, at that probability
        self._num_engines = 1  # a replica

    def apply(self, rules: Scheduling, num_engines: int) -> None:
        """Take over a (new) policy; what was learnt stays while a probability is stated."""
        self.closed = False
        self._num_engines = num_engines
        self._ratio = 0.0 if rules.strict else float(rules.oversubscription)
        risk = float(rules.preemption_risk)
        if risk <= 0.0:
            self.use = None
        else:
            self._deviations = NormalDist().inv_cdf(1.0 - risk)
            self.use = KvUse() if self.use is None else self.use

    def put(self, replica: Replica) -> None:
        """Set the replica's limit to what may be reserved there now."""
        replica.oversubscribe(self._allowed(replica))

    def _allowed(self, replica: Replica) -> float:
        if self.closed:
            return 0.0
        use = self.use
        if use is None:
            return self._ratio
        if not replica.in_blocks:
            return 0.0
        use.catch_up(replica.block_size)
        return use.ratio(replica.capacity * replica.block_size / self._num_engines, self._deviations)
