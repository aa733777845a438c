"""Capabilities on the virtual clock: measured and told once an hour as live, from rows kept in memory by sums.

capabilities = SimulatedCapabilities(policy, start_at)    # capabilities.settled is given each row
simulation.run(capabilities.due_at); simulation.tell(capabilities.report(at))
"""

from math import inf

from plimsoll.analytics.capability import DAYS, capabilities
from plimsoll.analytics.hourtally import HourTally
from plimsoll.governor.events import CapabilitiesReported
from plimsoll.policy.matrix import FRONT
from plimsoll.policy.policy import CAPABLE, Policy
from plimsoll.requestlog.record import Record
from plimsoll.storage.capabilityreport import HOUR, LATE, report


class SimulatedCapabilities:
    """Of one service under one policy; where nothing in the policy goes by them nothing is measured."""

    def __init__(self, policy: Policy, start_at: float) -> None:
        self._policy = policy
        self._tally = HourTally()
        self.wanted = policy.degradation.small_model == FRONT or any(
            tier.prefer == CAPABLE or (tier.classes is not None and tier.classes.within is not None)
            for tier in policy.tiers
        )
        self.due_at = (start_at // HOUR + 1.0) * HOUR + LATE if self.wanted else inf

    def settled(self, row: Record) -> None:
        """A request ended."""
        if self.wanted:
            self._tally.add(row)

    def report(self, at: float) -> CapabilitiesReported:
        """What the governor is told at that instant, which is due: of the hours that are over."""
        until = (at - LATE) // HOUR * HOUR
        self.due_at = until + HOUR + LATE
        since = until - DAYS * 24.0 * HOUR
        return report(capabilities(self._tally.hours(since, until), self._policy, "simulation", since, until), at)
