"""A replica that does everything step by step, block by block and token by token, with exact sums: the plain twin.

It shares nothing with `plimsoll.sim` but the step-time formula, and is written for reading, not for speed.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from fractions import Fraction

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime


@dataclass
class Block:
    """One KV block: who uses it, and under which key its content can be found (None: cannot)."""

    number: int
    refs: int = 0
    key: object = None


@dataclass
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
    """Runs a whole history at once."""

    def __init__(self, profile: EngineProfile) -> None:
        self.profile, self.steps = profile, StepTime(profile)
        self.blocks = Blocks(profile.num_blocks, profile.prefix_caching)
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.now = Fraction(0)
        self.ends: list[Fraction] = []  # of all steps

    def run(self, requests: list[Request]) -> None:
        coming = sorted(requests, key=lambda r: (r.arrival, r.id))
        for order, request in enumerate(coming):
            request.order = order
        cancels = sorted((r for r in requests if r.cancel_at is not None), key=lambda r: (r.cancel_at, r.id))
        while coming or self.running or self.waiting:
            if not self.running and not self.waiting:
                self.now = coming[0].arrival
                self.waiting.append(coming.pop(0))
            members = self.schedule()
            end = self.now + Fraction(self.duration(members))
            while cancels and cancels[0].cancel_at is not None and cancels[0].cancel_at < end:
                self.cancel(cancels.pop(0), members, coming)
            while coming and coming[0].arrival < end:
                self.waiting.append(coming.pop(0))
            self.now = end
            self.ends.append(end)
            self.deliver(members)

    def cancel(self, request: Request, members: list[Request], coming: list[Request]) -> None:
        if request.finished_at is not None:
            return
        request.cancelled = True
        self.blocks.give_back(request.blocks)
        request.blocks = []
        for place in (members, self.running, self.waiting, coming):
            if request in place:
                place.remove(request)

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
        for request in list(self.running):
            if request not in self.running:
                continue
            chunk = min(request.tokens - request.computed, budget)
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
        if not preempted or not members:
            self.admit(members, budget)
        return members

    def preempt(self, request: Request) -> None:
        self.running.remove(request)
        for block in request.blocks[request.computed // self.profile.block_size :]:
            if block.key is not None:  # taken for this step, never computed
                del self.blocks.cached[block.key]
                block.key = None
        self.blocks.give_back(request.blocks)
        request.blocks, request.computed, request.decoding, request.num_keyed = [], 0, False, 0
        request.preemptions += 1
        self.waiting.insert(0, request)

    def admit(self, members: list[Request], budget: int) -> None:
        size = self.profile.block_size
        while budget > 0 and self.waiting and len(self.running) < self.profile.max_num_seqs:
            if self.profile.priority_scheduling:
                self.waiting.sort(key=lambda r: (r.priority, r.order))
            request = self.waiting[0]
            hits: list[Block] = []
            while len(hits) < (request.tokens - 1) // size:
                block = self.blocks.cached.get(self.key(request, len(hits)))
                if block is None:
                    break
                hits.append(block)
            computed = len(hits) * size
            chunk = min(request.tokens - computed, budget)
            reach = request.tokens if self.profile.reserve_prompt else computed + chunk
            needed = -(-reach // size) - len(hits) + sum(block.refs == 0 for block in hits)
            if needed > len(self.blocks.free):
                return
            for block in hits:
                self.blocks.take(block)
            request.blocks, request.computed, request.chunk, request.num_keyed = hits, computed, chunk, len(hits)
            if request.cached is None:
                request.cached = computed
            self.grow(request, computed + chunk)
            self.waiting.pop(0)
            self.running.append(request)
            members.append(request)
            budget -= chunk

    def duration(self, members: list[Request]) -> float:
        decoding = [r for r in members if r.decoding]
        prompts = [r for r in members if not r.decoding]
        context = sum(r.computed for r in decoding)
        if not prompts:
            return self.steps.decode(len(decoding), context)
        tokens = sum(r.chunk for r in prompts)
        work = sum(r.chunk * (r.computed + r.chunk / 2) for r in prompts)
        history = sum(r.chunk * r.computed for r in prompts) / tokens
        return self.steps.mixed(tokens, len(prompts), len(decoding), context, work, history)

    def deliver(self, members: list[Request]) -> None:
        for request in members:
            request.computed += request.chunk
            if request.computed < request.tokens:
                continue
            request.decoding = True
            if request.output:
                request.generated += 1
                request.tokens_at.append(self.now)
            if request.generated == request.output:
                request.finished_at = self.now
                self.running.remove(request)
                self.blocks.give_back(request.blocks)
