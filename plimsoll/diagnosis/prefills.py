"""What a replica's steps with prompts in them must have been, from who got its first token when.

An engine with chunked prefill takes prompts in order, up to a token budget a step. So each first token marks the end of
a step, the step-time model says how long that step and the full ones before it took, and a step cannot begin before
the one before it has ended. Nothing is simulated: the instants are those that were seen, the model only divides the
time between them.
"""

from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plimsoll.diagnosis.visits import Floats, Ints
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime

SAME_STEP: Final = 2e-3
"""First tokens that come within so many s of each other are of one step: they are sent one after the other."""


class Prompt:
    """One prompt on its way through a replica: `began_at`, `own` and `others` are what is found."""

    __slots__ = ("began_at", "cached", "dispatched_at", "first_at", "left", "others", "own", "tenant")

    def __init__(self, tenant: int, dispatched_at: float, first_at: float, cached: int, tokens: int) -> None:
        self.tenant = tenant
        self.dispatched_at = dispatched_at
        self.first_at = first_at
        self.cached = cached
        self.left = tokens  # not computed yet
        self.began_at = inf  # start of its first step
        self.own = 0.0  # s that its steps would have taken without other prompts
        self.others = 0.0  # s by which other prompts made them longer


Chunk = tuple[Prompt, int, int]
"""A prompt, tokens of it in a step, tokens of it computed before."""


class Step:
    """One step with prompts in it, beside `num_seqs` decoding requests that hold `context` KV tokens."""

    __slots__ = ("alone", "chunks", "context", "ended_at", "num_seqs", "tokens", "took")

    def __init__(self, chunks: list[Chunk], num_seqs: int, context: int) -> None:
        self.chunks = chunks
        self.num_seqs = num_seqs
        self.context = context
        self.tokens = 0  # of prompts
        self.took = 0.0  # s
        self.alone = 0.0  # s that the same step would have taken without any prompt
        self.ended_at = 0.0


class Prefills:
    """The steps of one replica, in order, found from the prompts in order of their first tokens."""

    def __init__(
        self, profile: EngineProfile, prompts: list[Prompt], num_seqs: Floats, context: Floats, pace: Floats
    ) -> None:
        """`num_seqs` and `context`: the decoding requests and their KV tokens just before each first token.

        `pace`: how many times longer than the model says steps took then.
        """
        self._times = StepTime(profile)
        self._pace = 1.0
        self._budget = profile.max_batched_tokens
        self.steps: list[Step] = []
        starts = [i for i in range(len(prompts)) if i == 0 or prompts[i].first_at - prompts[i - 1].first_at > SAME_STEP]
        groups = [
            sorted(prompts[start:end], key=lambda prompt: prompt.dispatched_at)
            for start, end in zip(starts, [*starts[1:], len(prompts)], strict=True)
        ]
        for number, (start, group) in enumerate(zip(starts, groups, strict=True)):
            following = groups[number + 1][0] if number + 1 < len(groups) else None
            self._pace = float(pace[start])
            self._place(group, following, prompts[start].first_at, int(num_seqs[start]), int(context[start]))

    def is_full(self, step: Step) -> bool:
        """Whether no prompt more could have gone into it."""
        return step.tokens + step.num_seqs >= self._budget

    def _place(self, group: list[Prompt], following: Prompt | None, ended_at: float, seqs: int, context: int) -> None:
        """Lay the steps of prompts that ended together back to back, the last one ending at `ended_at`."""
        queue, steps = list(group), []
        while queue:
            steps.append(self._step(queue, seqs, context))
        if following is not None:
            self._fill(steps[-1], following, ended_at)
        before = self.steps[-1].ended_at if self.steps else -inf
        total, span = sum(step.took for step in steps), ended_at - before
        scale = min(1.0, span / total) if total > 0.0 else 1.0  # the model may take too long, the clock may not
        at = ended_at
        for step in reversed(steps):
            step.took *= scale
            step.alone = min(step.alone, step.took)
            step.ended_at = at
            at -= step.took
            self._share(step)
        self.steps += steps

    def _step(self, queue: list[Prompt], num_seqs: int, context: int) -> Step:
        room = max(1, self._budget - num_seqs)
        step = Step([], num_seqs, context)
        while queue and room > 0:
            prompt = queue[0]
            room -= self._take(step, prompt, min(room, prompt.left))
            if prompt.left == 0:
                queue.pop(0)
        step.alone = self._pace * self._times.decode(num_seqs, context) if num_seqs else 0.0
        step.took = self._duration(step, step.chunks)
        return step

    def _fill(self, last: Step, following: Prompt, ended_at: float) -> None:
        """What room a step has left goes to the next prompt, if that was there already and is too long for it."""
        room = self._budget - last.num_seqs - last.tokens
        if 0 < room < following.left and following.dispatched_at < ended_at - last.took:
            self._take(last, following, room)
            last.took = self._duration(last, last.chunks)

    @staticmethod
    def _take(step: Step, prompt: Prompt, tokens: int) -> int:
        step.chunks.append((prompt, tokens, prompt.cached))
        step.tokens += tokens
        prompt.left -= tokens
        prompt.cached += tokens
        return tokens

    def _duration(self, step: Step, chunks: list[Chunk]) -> float:
        tokens, work, history = 0, 0.0, 0
        for _, chunk, before in chunks:
            tokens += chunk
            work += chunk * (before + chunk / 2)
            history += chunk * before
        took = self._times.mixed(tokens, len(chunks), step.num_seqs, step.context, work, history / tokens)
        return self._pace * took

    def _share(self, step: Step) -> None:
        """Tell each prompt of a step what of it was its own."""
        began, took = step.ended_at - step.took, step.took
        is_shared = len(step.chunks) > 1
        whole = self._duration(step, step.chunks) if is_shared else 1.0
        for chunk in step.chunks:
            own = took * min(1.0, self._duration(step, [chunk]) / whole) if is_shared else took
            prompt = chunk[0]
            prompt.own += own
            prompt.others += took - own
            prompt.began_at = min(prompt.began_at, began)


def arrays(steps: list[Step]) -> tuple[Floats, Floats, Ints, Floats]:
    """One entry for each prompt in each step: the step's end, s it made the step longer, its tenant, s of the step."""
    num = sum(len(step.chunks) for step in steps)
    ends, extra, busy = np.zeros(num), np.zeros(num), np.zeros(num)
    tenants: NDArray[np.int64] = np.zeros(num, np.int64)
    place = 0
    for step in steps:
        tokens = step.tokens
        for prompt, chunk, _ in step.chunks:
            ends[place], tenants[place] = step.ended_at, prompt.tenant
            extra[place] = (step.took - step.alone) * chunk / tokens
            busy[place] = step.took * chunk / tokens
            place += 1
    return ends, extra, tenants, busy
