"""The live hands: what happens on the wire becomes events for the governor, its decisions become answers and attempts.

Clock-agnostic: instants come in with every call or from the injected clock, and the one timer is the caller's. With an
event loop and sockets it serves; with a virtual clock and a scripted replica it is tested (law 4).

A request's path: `request` → `_arrive` → governor → `carrier.carry_out` → data path → `ended` → governor →
`carry_out` (settle, journal, flush) → the last bytes go out.
"""

import logging
from collections.abc import Mapping

from plimsoll.engine.profile import EngineProfile
from plimsoll.gateway.carrier import Books, Carrier, Surroundings
from plimsoll.gateway.channel import Channel
from plimsoll.gateway.checking import Checking
from plimsoll.gateway.errors import Refusal
from plimsoll.gateway.flight import Flight, flight_of, read
from plimsoll.gateway.givingup import GivingUp
from plimsoll.gateway.hands import Answer, ClientRequest, Ended, Exchange
from plimsoll.gateway.intake import Intake
from plimsoll.gateway.labels import TRACEPARENT, BadHeader, read_trace
from plimsoll.gateway.openai import LARGE_BODY, BadBody, Body
from plimsoll.gateway.prompts import TokenRatio
from plimsoll.gateway.routes import find_route
from plimsoll.governor.decisions import WakeAt
from plimsoll.governor.events import (
    AttemptFailed,
    DrainStarted,
    FirstToken,
    PolicyChanged,
    PrefillFailed,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
    RequestCancelled,
    RequestFinished,
    RequestRefused,
    ReservationOutgrown,
    TimerFired,
)
from plimsoll.policy.policy import Policy
from plimsoll.slo.outcome import Reason

_log = logging.getLogger("plimsoll.gateway")


class Driver:
    """Implements `hands.Hands` over one governor."""

    def __init__(
        self,
        policy: Policy,
        channel: Channel,
        books: Books,
        around: Surroundings,
        *,
        first_request_id: int,
        trace_seed: int = 0,
    ) -> None:
        """`trace_seed` (64 bits, new at each start) makes the traces that begin here unlike everybody else's."""
        self.unattributed: dict[Reason, int] = {}  # refusals of nobody's requests: no key, not even HTTP
        self.draining = False
        self._giving_up = GivingUp(channel.send, around.clock)
        whom = (around.run_plugins, around.find_prefixes)
        self._checking = Checking(channel.send, around.clock, whom, self._admit, self.give_up)
        self.carrier = Carrier(books, around, self._wake, self.give_up, self._checking)
        self._flights = self._giving_up.flights = self.carrier.flights
        self._send, self._books = channel.send, books
        self._around = around
        self._next_id = first_request_id
        self._trace_seed = f"{trace_seed & (1 << 64) - 1:016x}"
        self._ratios: dict[str, TokenRatio] = {}
        self._signatures: dict[bytes, float] = {}
        self._take(policy)
        channel.open(self.carrier.carry_out)

    # --- what the data path calls (hands.Hands) --------------------------------------------------------------------

    def head_read(self, request: ClientRequest) -> Answer | None:
        """See `Hands`: no body is read of a request that will be refused whatever it holds."""
        reason = find_route(request.method, request.target).refused
        if self._intake.tenant(request) is None:
            reason = Reason.UNKNOWN_KEY
        return self.refusal(request, reason, self._around.clock()) if reason else None

    def request(self, exchange: Exchange) -> None:
        """See `Hands`."""
        request = exchange.request
        if request.method != b"POST" and self._answer_ourselves(exchange):
            return None
        tenant = self._intake.tenant(request)
        if tenant is None:
            return self._refuse(exchange, Reason.UNKNOWN_KEY)
        route = find_route(request.method, request.target)
        if route.refused is not None:
            return self._refuse(exchange, route.refused)
        try:
            labels = self._intake.labels(request)
        except BadHeader as error:
            return self._refuse(exchange, Reason.BAD_REQUEST, str(error))
        flight = Flight(exchange, self._new_id(), tenant, route.endpoint, labels)
        if not labels.trace_id:
            labels.trace_id = f"{self._trace_seed}{flight.request_id:016x}"
        exchange.context = flight
        if len(request.body) <= LARGE_BODY:
            return self._arrive(flight, read(flight))
        return self._around.offload(lambda: self._read_large(flight), lambda body: self._body_read(flight, body))

    def client_left(self, exchange: Exchange, at: float) -> None:
        """See `Hands`."""
        flight = exchange.context
        if not isinstance(flight, Flight):
            return
        if self._flights.pop(flight.request_id, None) is not None:
            self._send(RequestCancelled(at, flight.request_id))
        elif self._checking.forget(flight):
            self._record_left(flight)
        elif flight.arrival is None:
            flight.left = True

    def first_token(self, exchange: Exchange, at: float, *, hedge: bool = False) -> None:
        """See `Hands`."""
        self._send(FirstToken(at, flight_of(exchange).request_id, hedge))

    def hedge_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """See `Hands`."""
        self._send(AttemptFailed(at, flight_of(exchange).request_id, reason, retry_after, hedge=True))

    def prefill_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """See `Hands`."""
        self._send(PrefillFailed(at, flight_of(exchange).request_id, reason, retry_after))

    def outgrown(self, exchange: Exchange, tokens: int, at: float) -> None:
        """See `Hands`."""
        request_id = flight_of(exchange).request_id
        if request_id in self._flights:
            self._send(ReservationOutgrown(at, request_id, tokens))

    def attempt_failed(self, exchange: Exchange, reason: Reason, retry_after: float, at: float) -> None:
        """See `Hands`."""
        self._send(AttemptFailed(at, flight_of(exchange).request_id, reason, retry_after))

    def ended(self, exchange: Exchange, end: Ended) -> None:
        """See `Hands`: the row and its ledger entries are written before this returns."""
        flight = flight_of(exchange)
        if self._flights.pop(flight.request_id, None) is None:
            return  # given up: settled already
        if flight.tokens is None or flight.body is None:
            raise TypeError(f"request {flight.request_id:016x} ended without a dispatch")
        usage = end.usage
        timing = flight.tokens.finish(usage.output_tokens)
        prompt_tokens = usage.prompt_tokens or 0
        if prompt_tokens:
            self._intake.learn(flight.body, prompt_tokens)
        self._send(
            RequestFinished(
                end.at, flight.request_id, end.outcome, end.reason, timing, prompt_tokens, timing.num_tokens,
                usage.cached_tokens, end.phase, *end.engine_path, *end.client_path, *usage.drafts,
            )
        )  # fmt: skip

    def refusal(self, request: ClientRequest, reason: Reason, at: float) -> Answer:
        """See `Hands`."""
        return self._record_refusal(request, self._intake.refusal(request, reason), at).answer()

    def failure(self, exchange: Exchange, reason: Reason) -> Answer:
        """See `Hands`."""
        return self._failure(exchange, reason).answer()

    def failure_event(self, exchange: Exchange, reason: Reason) -> bytes:
        """See `Hands`."""
        return self._failure(exchange, reason).event()

    def give_up(self, exchange: Exchange, fault: Exception) -> None:
        """See `guard.Fallible`."""
        self._checking.forget(exchange.context)
        self._giving_up.give_up(exchange, fault)

    # --- what the application calls --------------------------------------------------------------------------------

    @property
    def num_open(self) -> int:
        """Requests that the governor knows and that have not ended."""
        return len(self._flights)

    def replicas_reported(self, reports: tuple[ReplicaReport, ...]) -> None:
        """The probe's word on all replicas."""
        self._send(ReplicasReported(self._around.clock(), reports))

    def change_policy(self, policy: Policy, profiles: Mapping[str, EngineProfile]) -> None:
        """New requests go by this policy and the engine profiles it names; what is open goes on."""
        self._take(policy)
        self._send(PolicyChanged(self._around.clock(), policy, dict(profiles)))

    def drain(self, grace: float) -> None:
        """No new requests from now on; those queued have `grace` s to be dispatched."""
        self.draining = True
        self._send(DrainStarted(self._around.clock(), grace))

    def end_all(self, reason: Reason) -> None:
        """The grace is over: what still runs is ended, with its row."""
        for flight in list(self._flights.values()):
            if flight.tokens is not None:
                flight.exchange.evict(reason)

    def _take(self, policy: Policy) -> None:
        self.policy = policy
        self._intake = Intake(policy, self._ratios, self._signatures)
        self.carrier.take(policy, self._intake)

    def _answer_ourselves(self, exchange: Exchange) -> bool:
        """Browsers' questions, health, the list of models: nothing that a replica is needed for."""
        answer = self._intake.own_answer(exchange.request, ready=not self.draining)
        if answer is not None:
            exchange.answer(answer.status, answer.headers, answer.body)
        return answer is not None

    def _arrive(self, flight: Flight, body: Body | BadBody) -> None:
        """The body is read: tell the governor, or refuse."""
        try:
            if isinstance(body, BadBody):
                raise body
            body = self._intake.check(body)
        except BadBody as error:
            return self._refuse(flight.exchange, Reason.BAD_REQUEST, str(error), error.param, flight.request_id)
        flight.body = body
        if flight.left:
            return self._record_left(flight)
        if not self._books.accepting:
            return self._refuse(flight.exchange, Reason.STORAGE_FULL, request_id=flight.request_id)
        arrival = self._intake.arrival(flight, body)
        return self._checking.begin(flight, arrival, plugins=bool(self.policy.plugins))

    def _admit(self, flight: Flight, arrival: RequestArrived) -> None:
        """Nothing stands before its decision any more."""
        flight.arrival = arrival
        self._flights[flight.request_id] = flight
        self._send(arrival)

    def _record_left(self, flight: Flight) -> None:
        """Its client went before it arrived."""
        left = Refusal(Reason.CLIENT_LEFT, request_id=flight.request_id)
        model = flight.body.model if flight.body is not None else ""
        self._record_refusal(flight.exchange.request, left, self._around.clock(), model)

    def _read_large(self, flight: Flight) -> Body | Exception:
        """Runs beside the loop: whatever is wrong comes back as a value."""
        try:
            return self._around.read_large(flight.endpoint, flight.exchange.request.body)
        except Exception as fault:
            return fault

    def _body_read(self, flight: Flight, body: Body | BadBody | Exception) -> None:
        """The body was read beside the loop: nobody above us would see what goes wrong from here."""
        if isinstance(body, Exception) and not isinstance(body, BadBody):
            return self.give_up(flight.exchange, body)
        try:
            return self._arrive(flight, body)
        except Exception as fault:
            self.give_up(flight.exchange, fault)

    def _refuse(
        self, exchange: Exchange, reason: Reason, detail: str = "", param: str = "", request_id: int = 0
    ) -> None:
        refusal = self._intake.refusal(exchange.request, reason, detail, param)
        refusal.request_id = request_id
        answer = self._record_refusal(exchange.request, refusal, self._around.clock()).answer()
        exchange.answer(answer.status, answer.headers, answer.body)

    def _record_refusal(self, request: ClientRequest, refusal: Refusal, at: float, model: str = "") -> Refusal:
        """What is refused before the governor sees it is told to it where it is somebody's, and counted anyhow."""
        tenant = self._intake.tenant(request)
        refusal.request_id = refusal.request_id or self._new_id()
        if tenant is None:
            self.unattributed[refusal.reason] = self.unattributed.get(refusal.reason, 0) + 1
        else:
            client_id = request.header(b"x-request-id")[:128].decode("latin-1")
            trace_id, parent, _ = read_trace(request.header(TRACEPARENT)) or ("", "", "")
            self._send(
                RequestRefused(at, refusal.request_id, tenant.name, refusal.reason, model, client_id, trace_id, parent)
            )
        return refusal

    def _failure(self, exchange: Exchange, reason: Reason) -> Refusal:
        refusal = self._intake.refusal(exchange.request, reason)
        refusal.request_id = flight_of(exchange).request_id
        return refusal

    def _new_id(self) -> int:
        request_id = self._next_id
        self._next_id += 1
        return request_id

    def _wake(self) -> None:
        try:
            self._send(TimerFired(self._around.clock()))
        except Exception as fault:
            _log.error("a fault of the gateway itself at its timer", exc_info=fault)
            self.carrier.carry_out((WakeAt(self._around.clock() + 1.0),))  # queued requests must still expire
