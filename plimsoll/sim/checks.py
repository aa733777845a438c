"""Plugins of the virtual hands: each takes its `simulated` time and lets everybody pass."""

from plimsoll.governor.decisions import Decision, RunPlugins
from plimsoll.governor.events import Checked, RequestArrived, RequestCancelled, RequestRead, RequestRefused
from plimsoll.policy.policy import Policy
from plimsoll.sim.agenda import CHECKED, Agenda
from plimsoll.sim.asking import CRITICALITIES, arrived
from plimsoll.sim.flight import Flight
from plimsoll.slo.outcome import Reason


class Checks:
    """Requests between being read and arriving, by id."""

    def __init__(self, policy: Policy, agenda: Agenda) -> None:
        self._num_plugins = len(policy.plugins)  # 0: requests arrive when they are read
        self._upstream_trust = policy.service.upstream_time
        self._seconds = {plugin.name: plugin.simulated for plugin in policy.plugins}
        self._agenda = agenda
        self._checked: dict[int, Checked] = {}
        self._flights: dict[int, Flight] = {}

    def first(self, flight: Flight, at: float) -> RequestArrived | RequestRead:
        """The event of a request that was read: it arrives, or plugins are to look at it."""
        if not self._num_plugins:
            return arrived(flight, at, self._upstream_trust)
        self._checked[flight.request_id] = Checked(at, "")
        self._flights[flight.request_id] = flight
        criticality = CRITICALITIES[flight.criticality]
        return RequestRead(
            at,
            flight.request_id,
            flight.tenant,
            flight.model,
            flight.prompt_tokens,
            criticality,
            flight.asked_tier,
        )

    def ask(self, decision: Decision, at: float) -> None:
        """RunPlugins: they look at it one after the other; then the agenda says that it is CHECKED."""
        if not isinstance(decision, RunPlugins):
            return
        asked = [f"{name}:allow" for name in decision.plugins] + [f"{name}:dropped" for name in decision.dropped]
        began = self._checked[decision.request_id].read_at
        self._checked[decision.request_id] = Checked(began, ",".join(asked), dropped=bool(decision.dropped))
        seconds = sum([self._seconds[name] for name in decision.plugins])
        self._agenda.put(at + seconds, CHECKED, decision.request_id)

    def over(self, request_id: int, at: float) -> RequestArrived | None:
        """The event when they have looked at it; None: its client has left."""
        flight = self._flights.pop(request_id, None)
        return None if flight is None else arrived(flight, at, self._upstream_trust, self._checked.pop(request_id))

    def left(self, flight: Flight, at: float) -> RequestCancelled | RequestRefused:
        """The event where its client leaves before it is dispatched."""
        if self._flights.pop(flight.request_id, None) is None:
            return RequestCancelled(at, flight.request_id)
        del self._checked[flight.request_id]
        return RequestRefused(at, flight.request_id, flight.tenant, Reason.CLIENT_LEFT, flight.model)
