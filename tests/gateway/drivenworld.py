"""A small real world for the driver: a virtual clock, exchanges that remember, books in memory, a scripted governor."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from plimsoll.gateway.carrier import Surroundings
from plimsoll.gateway.channel import Decider, DirectChannel
from plimsoll.gateway.driver import Driver
from plimsoll.gateway.hands import Attempt, ClientRequest, Ended, Hands, Headers, Usage
from plimsoll.gateway.plugin import PluginRunner, no_plugins
from plimsoll.governor.decisions import Decision, Reassign, Settle
from plimsoll.governor.events import Event, RequestArrived
from plimsoll.policy.policy import GatewayRules, Policy, Pool, Service, Tenant, Tier, UpstreamTrust
from plimsoll.slo.outcome import Outcome, Phase, Reason

KEY = "sk-acme"
POLICY = Policy(
    service=Service(upstream_time=UpstreamTrust.HEADER),
    tiers=(Tier("gold", 0), Tier("bronze", 1)),
    tenants=(Tenant("acme", "gold", keys=("sha256:" + sha256(KEY.encode()).hexdigest(),), tiers=("bronze",)),),
    pools=(Pool("chat", "m", "vllm", ("http://r1", "http://r2"), aliases=("nick",)),),
    gateway=GatewayRules(cors_origins=("https://app.example",)),
)
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": true}'


class VirtualClock:
    """Stands still until told; timers fire in order."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def call_at(self, at: float, callback: Callable[[], None]) -> "VirtualTimer":
        self.timers.append((at, callback))
        return VirtualTimer(self, self.timers[-1])

    def advance(self, to: float) -> None:
        while due := [timer for timer in self.timers if timer[0] <= to]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = to


class VirtualTimer:
    def __init__(self, clock: VirtualClock, entry: tuple[float, Callable[[], None]]) -> None:
        self._clock, self._entry = clock, entry

    def cancel(self) -> None:
        if self._entry in self._clock.timers:
            self._clock.timers.remove(self._entry)


class RememberedBooks:
    """Books in memory; `log` is shared with the exchanges, so that order can be seen."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.accepting = True
        self.settled: list[Settle] = []
        self.moves: list[Reassign] = []

    def opened(self, request_id: int, *_: Any, **__: Any) -> None:
        self.log.append("opened")

    def settle(self, settle: Settle) -> None:
        self.settled.append(settle)
        self.log.append("settle")

    def reassigned(self, move: Reassign) -> None:
        self.moves.append(move)
        self.log.append("reassigned")

    def flush(self) -> None:
        self.log.append("flush")


class RememberedExchange:
    """One request; what the driver does with it is kept."""

    def __init__(self, world: "World", request: ClientRequest) -> None:
        self.request = request
        self.context: object = None
        self.phase = Phase.QUEUE
        self.open = True
        self.running = False  # an attempt is under way
        self.saw_token = False
        self.attempts: list[Attempt] = []
        self.hints: list[dict[bytes, bytes]] = []
        self.answered: tuple[int, dict[bytes, bytes], bytes] | None = None
        self._world = world

    def answer(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        if self.open and not self.running:
            self.open = False
            self.answered = (status, dict(headers), body)
            self._world.log.append("answer")

    def forward(self, attempt: Attempt) -> None:
        self._world.wire()
        self.running = True
        self.attempts.append(attempt)
        self._world.log.append("forward")

    def hedge(self, attempt: Attempt) -> None:
        if self.running and not self.saw_token:
            self.attempts.append(attempt)
            self._world.log.append("hedge")

    def hint(self, fields: Headers) -> None:
        self._world.wire()
        self.hints.append(dict(fields))

    def evict(self, reason: Reason) -> None:
        if self.running:
            self.end(Outcome.EVICTED, reason)

    def fail(self, reason: Reason, retry_after: float = 0.0) -> None:
        """The data path reports that the attempt failed without a byte for the client."""
        self.running = False
        self._world.hands.attempt_failed(self, reason, retry_after, self._world.clock())

    def end(
        self, outcome: Outcome = Outcome.COMPLETED, reason: Reason = Reason.DONE, usage: Usage | None = None
    ) -> None:
        """The data path reports the end, then the last bytes go out."""
        self.open = self.running = False
        at = self._world.clock()
        end = Ended(at, outcome, reason, phase=Phase.NONE, status=200, usage=usage or Usage())
        self._world.hands.ended(self, end)
        self._world.log.append("last bytes")


class ScriptedGovernor:
    """Answers each kind of event with what the test says; keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.script: dict[type, Callable[[Any], Sequence[Decision]]] = {}

    def handle(self, event: Event) -> Sequence[Decision]:
        self.events.append(event)
        answer = self.script.get(type(event))
        return answer(event) if answer else []

    def last(self, kind: type) -> Any:
        return [event for event in self.events if isinstance(event, kind)][-1]


class World:
    """Everything put together."""

    def __init__(
        self,
        policy: Policy = POLICY,
        decider: Decider | None = None,
        books: RememberedBooks | None = None,
        run_plugins: PluginRunner = no_plugins,
    ) -> None:
        """`decider`: a real governor instead of the scripted one."""
        self.books = books or RememberedBooks([])
        self.log = self.books.log
        self.wire: Callable[[], object] = bool  # called before anything of a request goes out
        self.clock = VirtualClock()
        self.governor = ScriptedGovernor()
        self.soon: list[Callable[[], None]] = []
        self.offloaded: list[Callable[[], None]] = []
        around = Surroundings(self.clock, self.clock.call_at, self.soon.append, self._offload, run_plugins=run_plugins)
        self.driver = Driver(
            policy, DirectChannel(decider or self.governor), self.books, around, first_request_id=1 << 40
        )
        self.hands: Hands = self.driver

    def _offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.offloaded.append(lambda: done(work()))

    def send(
        self, body: bytes = BODY, method: bytes = b"POST", target: bytes = b"/v1/chat/completions", **fields: bytes
    ) -> RememberedExchange:
        """A client's request with acme's key; `x_plimsoll_tier=b"gold"` adds a header."""
        request = ClientRequest(self.clock(), "127.0.0.1")
        request.method, request.target, request.body = method, target, body
        named = {name.replace("_", "-").encode(): value for name, value in fields.items()}
        request.fields = {b"authorization": b"Bearer " + KEY.encode()} | named
        exchange = RememberedExchange(self, request)
        self.hands.request(exchange)
        self.run_soon()
        return exchange

    def run_soon(self) -> None:
        """What the event loop would do next."""
        while self.soon:
            self.soon.pop(0)()

    @property
    def arrival(self) -> RequestArrived:
        event: RequestArrived = self.governor.last(RequestArrived)
        return event
