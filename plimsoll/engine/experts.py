"""What a mixture of experts adds to a step: the busiest rank sets the pace, and tokens travel to their experts."""

from math import log, sqrt

from plimsoll.engine.features import MixtureOfExperts, Router, Topology
from plimsoll.engine.grids import Line


class Experts:
    """The expert terms of one profile; both depend on the tokens of a step alone, so decode runs stay progressions."""

    def __init__(self, moe: MixtureOfExperts) -> None:
        travel = moe.inside if moe.topology is Topology.INSIDE else moe.across
        self._base, self._per_token = moe.num_layers * travel.base, moe.num_layers * travel.per_token
        self._share = moe.expert_share
        self._ranks, self._choices = moe.num_ranks, moe.experts_per_token
        self._router = moe.router.value
        self._skew = Line(tuple(t for t, _ in moe.skew), tuple(x for _, x in moe.skew)) if len(moe.skew) > 1 else None
        self._least = moe.skew[0] if moe.skew else (0.0, 1.0)
        self._most = moe.skew[-1] if moe.skew else (0.0, 1.0)

    def imbalance(self, tokens: int) -> float:
        """Load of the busiest rank ÷ mean load.

        Argmax: as measured, flat outside the measured range. Probabilistic: the expected largest of R sums of n = T·k/R
        draws, 1 + sqrt(2 ln R · (1 − 1/R) / n), the usual bound for the maximum of R nearly normal values. Wait-aware:
        rounding alone, ceil(n) / n.
        """
        if self._ranks == 1 or tokens == 0:
            return 1.0
        mean = tokens * self._choices / self._ranks
        if self._router == Router.PROBABILISTIC.value:
            return min(float(self._ranks), 1.0 + sqrt(2 * log(self._ranks) * (1 - 1 / self._ranks) / mean))
        if self._router == Router.WAIT_AWARE.value:
            return -(-tokens * self._choices // self._ranks) / mean
        if self._skew is None:
            return self._least[1]
        return self._skew.at(min(max(float(tokens), self._least[0]), self._most[0]))

    def travel(self, tokens: int) -> float:
        """Seconds of a step in which tokens travel to their experts and back."""
        return self._base + self._per_token * tokens

    def added(self, tokens: int, linear: float) -> float:
        """Seconds on top of a balanced step without travel, whose linear part takes `linear` s."""
        return self._share * linear * (self.imbalance(tokens) - 1.0) + self.travel(tokens)
