"""A replica that does everything step by step, block by block and token by token, with exact sums: the plain twin.

It shares nothing with `plimsoll.sim` but the step-time formula, and is written for reading, not for speed.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from fractions import Fraction

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime
from plimsoll.sim.job import Job
from plimsoll.sim.speculation import Drafting


@dataclass
class Block:
    """One KV block: who uses it, and under which key its content can be found (None: cannot)."""

    number: int
    refs: int = 0
    key: object = None


@dataclass(eq=False)
class Request:
    """One request; `tokens_at` are the instants of its output tokens."""

    id: int
    arrival: Fraction
    prompt: int
    output: int
    hashes: tuple[int, ...] = ()
    hash_tokens: int = 16
    priority: int = 0
    cancel_at: Fraction | None = None
    order: int = 0
    computed: int = 0
    chunk: int = 0
    generated: int = 0
    decoding: bool = False
    num_keyed: int = 0
    blocks: list[Block] = field(default_factory=list)
    cached: int | None = None
    preemptions: int = 0
    tokens_at: list[Fraction] = field(default_factory=list)
    finished_at: Fraction | None = None
    cancelled: bool = False
    tenant: str = ""
    adapter: str = ""
    loaded_from: int = 0
    loaded: int = 0
    guesses: int = 0
    place: int = 0  # among those that one engine finished
    dice: Job | None = None  # its draws are those of the engine: only what is made of them is the reference's own

    @property
    def tokens(self) -> int:
        return self.prompt + self.generated


class Blocks:
    """vLLM's block pool: a free list in order of use, and content found by key until it is handed out again."""

    def __init__(self, num: int, caching: bool) -> None:
        self.caching = caching
        self.free: OrderedDict[int, Block] = OrderedDict((i, Block(i)) for i in range(num))
        self.cached: dict[object, Block] = {}

    def take(self, block: Block) -> None:
        if block.refs == 0:
            del self.free[block.number]
        block.refs += 1

    def new(self) -> Block:
        _, block = self.free.popitem(last=False)
        if block.key is not None:
            del self.cached[block.key]
            block.key = None
        block.refs = 1
        return block

    def give_back(self, blocks: list[Block]) -> None:
        for block in reversed(blocks):
            block.refs -= 1
            if block.refs == 0:
                self.free[block.number] = block


class ReferenceReplica:
    """Runs a whole history at once. `gate` says when requests enter; without one they do when they come."""

    def __init__(self, profile: EngineProfile, gate: "Gate | None" = None) -> None:
        self.profile, self.steps = profile, StepTime(profile)
        self.drafting = Drafting(profile.speculation) if profile.speculation else None
        self.blocks = Blocks(profile.num_blocks, profile.prefix_caching)
        self.gate = gate
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.members: list[Request] | None = None  # of the step that runs; None: idle
        self.now = self.took = Fraction(0)
        self.ends: list[Fraction] = []  # of all steps
        self.num_beyond = 0
        self.beyond = False
        self.events: list[tuple[Fraction, int, str, Request]] = []  # in order of time, then of making
        self.num_made = self.num_entered = 0
        self.told: list[tuple[str, Request]] = []  # by the step that has just ended
        self.arrived, self.unlooked, self.looked = False, 0, False

    def note(self, at: Fraction, kind: str, request: Request) -> None:
        self.num_made += 1
        self.events.append((at, self.num_made, kind, request))
        self.events.sort(key=lambda event: event[:2])

    def run(self, requests: list[Request]) -> None:
        for request in sorted(requests, key=lambda r: (r.arrival, r.id)):
            request.dice = Job(request.id, 1, 1)
            self.note(request.arrival, "arrives", request)
        for request in sorted(requests, key=lambda r: r.id):
            if request.cancel_at is not None:
                self.note(request.cancel_at, "cancelled", request)
        while self.events or self.members is not None:
            if self.members is None:
                self.now = max(self.now, self.events[0][0])
                self.happen()
                continue
            end = self.now + self.took
            while self.events and self.events[0][0] < end:
                self.happen()
            self.now = end
            self.ends.append(end)
            self.num_beyond += self.beyond
            self.deliver(self.members)
            self.members = None
            if self.running or self.waiting:
                self.start()
            self.follow()  # a scheduler sees what a step's end sets free one step later

    def start(self) -> None:
        self.members = self.schedule()
        self.took = Fraction(self.duration(self.members))

    def enter(self, request: Request) -> None:
        self.num_entered += 1
        request.order = self.num_entered
        self.waiting.append(request)
        self.arrived = True
        if self.members is None:
            self.start()

    def happen(self) -> None:
        at, _, kind, request = self.events.pop(0)
        if kind == "cancelled":
            self.cancel(request, at)
        elif request.cancelled:
            return
        elif kind == "enters" or self.gate is None:
            self.enter(request)
        elif kind == "arrives":
            self.gate.arrive(self, request, at)
        else:
            self.gate.prepare(self, request, at)

    def follow(self) -> None:
        told, self.told = self.told, []
        if self.gate is not None:
            for kind, request in told:
                self.gate.follow(self, kind, request, self.now)

    def cancel(self, request: Request, at: Fraction) -> None:
        if request.finished_at is not None:
            return
        request.cancelled = True
        self.blocks.give_back(request.blocks)
        request.blocks = []
        for place in (self.members or [], self.running, self.waiting):
            if request in place:
                place.remove(request)
        if self.gate is not None:
            self.gate.ended(self, request, at)

    def key(self, request: Request, index: int) -> object:
        size = self.profile.block_size
        if index < len(request.hashes) and (index + 1) * size <= request.prompt:
            return request.hashes[index]
        return ("own", request.id, index)

    def grow(self, request: Request, tokens: int) -> bool:
        """Give it blocks for `tokens` tokens; False where there are too few."""
        size = self.profile.block_size
        needed = -(-tokens // size) - len(request.blocks)
        if needed > len(self.blocks.free):
            return False
        request.blocks += [self.blocks.new() for _ in range(needed)]
        for index in range(request.num_keyed, tokens // size if self.blocks.caching else 0):
            key = self.key(request, index)  # asked once a block, when it fills up
            old = self.blocks.cached.get(key)
            if old is not None and isinstance(key, tuple):  # its own copy of before a preemption, not found again
                old.key = None
            if old is None or isinstance(key, tuple):
                request.blocks[index].key = key
                self.blocks.cached[key] = request.blocks[index]
            request.num_keyed = index + 1
        return True

    def schedule(self) -> list[Request]:
        members: list[Request] = []
        budget = self.profile.max_batched_tokens
        preempted = False
        num_decoding = sum(request.decoding for request in self.running)
        for request in list(self.running):
            if request not in self.running:
                continue
            if self.drafting is not None and request.decoding:
                request.guesses = self.drafting.guesses(num_decoding, request.output - request.generated)
            chunk = min(request.tokens + request.guesses - request.computed, budget)
            while not self.grow(request, request.computed + chunk):
                victim = self.running[-1]
                if self.profile.priority_scheduling:
                    victim = max(self.running, key=lambda r: (r.priority, r.order))
                preempted = True
                if victim in members:
                    members.remove(victim)
                    budget += victim.chunk
                self.preempt(victim)
                if victim is request:
                    break
            if request in self.running:
                request.chunk = chunk
                budget -= chunk
                members.append(request)
        self.looked = False
        if (not preempted or not members) and self.looks(members):
            self.admit(members, budget)
        return members

    def looks(self, members: list[Request]) -> bool:
        rounds = self.profile.rounds
        if rounds and members and self.unlooked and not (rounds.early_cut and self.arrived):
            self.unlooked -= 1
            return False
        self.looked, self.arrived = True, False
        return True

    def preempt(self, request: Request) -> None:
        self.running.remove(request)
        for block in request.blocks[request.computed // self.profile.block_size :]:
            if block.key is not None:  # taken for this step, never computed
                del self.blocks.cached[block.key]
                block.key = None
        self.blocks.give_back(request.blocks)
        request.blocks, request.computed, request.decoding, request.num_keyed = [], 0, False, 0
        request.loaded = request.guesses = 0
        request.preemptions += 1
        self.waiting.insert(0, request)

    def admit(self, members: list[Request], budget: int) -> None:
        while budget > 0 and self.waiting and len(self.running) < self.profile.max_num_seqs:
            if self.profile.priority_scheduling:
                self.waiting.sort(key=lambda r: (r.priority, r.order))
            request = self.waiting[0]
            if not self.begin(request, budget):
                break
            self.waiting.pop(0)
            self.running.append(request)
            members.append(request)
            budget -= request.chunk
        alone = all(request.decoding for request in members)
        self.unlooked = self.profile.rounds.steps - 1 if self.profile.rounds and alone else 0

    def begin(self, request: Request, budget: int) -> bool:
        size = self.profile.block_size
        hits: list[Block] = []
        while len(hits) < (request.tokens - 1) // size:
            block = self.blocks.cached.get(self.key(request, len(hits)))
            if block is None:
                break
            hits.append(block)
        computed = len(hits) * size
        if request.loaded_from <= computed < request.loaded:
            computed = request.loaded
        chunk = min(request.tokens - computed, budget)
        reach = request.tokens if self.profile.reserve_prompt else computed + chunk
        needed = -(-reach // size) - len(hits) + sum(block.refs == 0 for block in hits)
        if needed > len(self.blocks.free):
            return False
        for block in hits:
            self.blocks.take(block)
        request.blocks, request.computed, request.chunk, request.num_keyed = hits, computed, chunk, len(hits)
        if request.cached is None:
            request.cached = computed
        self.grow(request, computed + chunk)
        return True

    def found(self, request: Request) -> int:
        """How many blocks of its prompt are in HBM, from the start on, short of the last token."""
        num = 0
        while num < (request.prompt - 1) // self.profile.block_size and request.hashes[num] in self.blocks.cached:
            num += 1
        return num

    def duration(self, members: list[Request]) -> float:
        decoding = [r for r in members if r.decoding]
        prompts = [r for r in members if not r.decoding]
        context = sum(r.computed for r in decoding)
        guesses = sum(r.guesses for r in decoding)
        tokens, fitted = sum(r.chunk for r in members), self.profile
        self.beyond = 0 < fitted.fitted_max_tokens < tokens or 0 < fitted.fitted_max_context < context
        extra = 0.0
        if self.drafting is not None and guesses:
            extra += self.drafting.time(max(r.guesses for r in decoding), guesses)
        if self.profile.rounds and self.looked:
            extra += self.profile.rounds.schedule_time
        if not prompts:
            return extra + self.steps.decode(len(decoding), context, guesses)
        tokens = sum(r.chunk for r in prompts)
        work = sum(r.chunk * (r.computed + r.chunk / 2) for r in prompts)
        history = sum(r.chunk * r.computed for r in prompts) / tokens
        return extra + self.steps.mixed(tokens, len(prompts), len(decoding), context, work, history, guesses)

    def deliver(self, members: list[Request]) -> None:
        for request in members:
            num = 1
            if request.decoding and request.guesses and self.drafting is not None and request.dice is not None:
                request.dice.guesses, request.dice.tenant = request.guesses, request.tenant
                num += self.drafting.kept(request.dice)
            request.computed += num if request.decoding else request.chunk
            if request.computed < request.tokens:
                continue
            request.decoding = True
            if request.output:
                if not request.generated:
                    self.told.append(("first", request))
                request.generated += num
                request.tokens_at += [self.now] * num
            if request.generated == request.output:
                request.finished_at = self.now
                self.running.remove(request)
                self.blocks.give_back(request.blocks)
                self.told.append(("finished", request))


class Gate:
    """What keeps requests from entering; see `referencegate.py`."""

    def arrive(self, engine: ReferenceReplica, request: Request, at: Fraction) -> None:
        raise NotImplementedError

    def prepare(self, engine: ReferenceReplica, request: Request, at: Fraction) -> None:
        raise NotImplementedError

    def follow(self, engine: ReferenceReplica, kind: str, request: Request, at: Fraction) -> None:
        raise NotImplementedError

    def ended(self, engine: ReferenceReplica, request: Request, at: Fraction) -> None:
        raise NotImplementedError
