"""Steps that prompts share, or that one prompt fills several of: laid back to back, one by one."""

from math import inf
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.visits import Floats, Ints
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime

Chunk = tuple["Prompt", int, int]
"""A prompt, tokens of it in a step, tokens of it computed before."""


class Prompts(Struct, frozen=True):
    """Prompts of one replica, and the batch that each of them found.

    `num_seqs` and `context` are the decoding requests and their KV tokens just before the first token; `pace` is how
    many times longer than the model says steps took then.
    """

    tenant: Ints
    dispatched_at: Floats
    first_at: Floats
    cached: Ints
    tokens: Ints  # that had to be computed
    num_seqs: Ints
    context: Ints
    pace: Floats

    def take(self, rows: Ints) -> "Prompts":
        """Some of them, in that order."""
        return Prompts(
            self.tenant[rows],
            self.dispatched_at[rows],
            self.first_at[rows],
            self.cached[rows],
            self.tokens[rows],
            self.num_seqs[rows],
            self.context[rows],
            self.pace[rows],
        )


class Groups(Struct, frozen=True):
    """Prompts whose first tokens came together, in order of time, each group by dispatch; the batch that it found."""

    prompts: Prompts
    starts: Ints
    sizes: Ints
    ended_at: Floats
    before: Floats  # end of the group before
    num_seqs: Ints
    context: Ints
    pace: Floats

    def room(self, profile: EngineProfile) -> Ints:
        """Tokens of prompts that a step may hold; at least 1."""
        room: Ints = np.maximum(1, profile.max_batched_tokens - self.num_seqs)
        return room


class Prompt:
    """One prompt on its way: `left` tokens are not computed yet, `began_at` and `own` are what is found."""

    __slots__ = ("began_at", "cached", "dispatched_at", "left", "own", "tenant")

    def __init__(self, tenant: int, dispatched_at: float, cached: int, left: int) -> None:
        self.tenant = tenant
        self.dispatched_at = dispatched_at
        self.cached = cached
        self.left = left
        self.began_at = inf  # start of its first step
        self.own = 0.0  # s that its steps would have taken without other prompts


class Step:
    """One step: `tokens` of prompts, s that it took, and s that it would have taken without any prompt."""

    __slots__ = ("alone", "chunks", "ended_at", "tokens", "took")

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.tokens = 0
        self.took = 0.0
        self.alone = 0.0
        self.ended_at = 0.0

    def take(self, prompt: Prompt, tokens: int) -> None:
        """Some tokens of a prompt go into it."""
        self.chunks.append((prompt, tokens, prompt.cached))
        self.tokens += tokens
        prompt.left -= tokens
        prompt.cached += tokens


class SharedSteps:
    """`lay` finds the steps of one group. Of each prompt in `groups.prompts`, `began_at` and `own` once it is laid."""

    def __init__(self, profile: EngineProfile, groups: Groups) -> None:
        self._times: Final = StepTime(profile)
        self._budget: Final = profile.max_batched_tokens
        self._groups: Final = groups
        self._begun: dict[int, Prompt] = {}  # first prompts of groups that a step before them took up
        self._laid: set[int] = set()
        self._found: list[tuple[Step, bool]] = []
        self.began_at: Floats = np.full(groups.prompts.first_at.size, inf)
        self.own: Floats = np.zeros(groups.prompts.first_at.size)

    def lay(self, number: int) -> bool:
        """Lay the steps of a group, once; whether the last one took up tokens of the next group's first prompt."""
        if number in self._laid:
            return False
        self._laid.add(number)
        start, size = int(self._groups.starts[number]), int(self._groups.sizes[number])
        members = [self._begun.pop(start, None) or self._prompt(start)]
        members += [self._prompt(row) for row in range(start + 1, start + size)]
        batch = int(self._groups.num_seqs[number]), int(self._groups.context[number]), float(self._groups.pace[number])
        queue, steps = list(members), list[Step]()
        while queue:
            steps.append(self._step(queue, *batch))
        ended_at = float(self._groups.ended_at[number])
        following = start + size
        filled = following < len(self.own) and self._fill(steps[-1], following, ended_at, batch)
        self._set_back_to_back(steps, ended_at, float(self._groups.before[number]), batch)
        for row, prompt in enumerate(members, start):
            self.began_at[row], self.own[row] = prompt.began_at, prompt.own
        return filled

    def _prompt(self, row: int) -> Prompt:
        p = self._groups.prompts
        return Prompt(int(p.tenant[row]), float(p.dispatched_at[row]), int(p.cached[row]), int(p.tokens[row]))

    def _step(self, queue: list[Prompt], num_seqs: int, context: int, pace: float) -> Step:
        room = max(1, self._budget - num_seqs)
        step = Step()
        while queue and step.tokens < room:
            prompt = queue[0]
            step.take(prompt, min(room - step.tokens, prompt.left))
            if prompt.left == 0:
                queue.pop(0)
        step.alone = pace * self._times.decode(num_seqs, context) if num_seqs else 0.0
        step.took = self._duration(step.chunks, num_seqs, context, pace)
        return step

    def _fill(self, last: Step, following: int, ended_at: float, batch: tuple[int, int, float]) -> bool:
        """What room a step has left goes to the next prompt, if that was there already and is too long for it."""
        room = self._budget - batch[0] - last.tokens
        tokens, dispatched_at = self._groups.prompts.tokens[following], self._groups.prompts.dispatched_at[following]
        if not 0 < room < tokens or dispatched_at >= ended_at - last.took:
            return False
        prompt = self._begun[following] = self._prompt(following)
        last.take(prompt, room)
        last.took = self._duration(last.chunks, *batch)
        return True

    def _set_back_to_back(
        self, steps: list[Step], ended_at: float, before: float, batch: tuple[int, int, float]
    ) -> None:
        """The last one ends at `ended_at`, none begins before `before`."""
        total, span = sum([step.took for step in steps]), ended_at - before
        scale = min(1.0, span / total) if total > 0.0 else 1.0  # the model may take too long, the clock may not
        at = ended_at
        for step in reversed(steps):
            step.took *= scale
            step.alone = min(step.alone, step.took)
            step.ended_at = at
            at -= step.took
            self._share(step, batch)
            self._found.append((step, step.tokens + batch[0] >= self._budget))

    def _share(self, step: Step, batch: tuple[int, int, float]) -> None:
        """Tell each prompt of a step what of it was its own."""
        began, took = step.ended_at - step.took, step.took
        is_shared = len(step.chunks) > 1
        whole = self._duration(step.chunks, *batch) if is_shared else 1.0
        for chunk in step.chunks:
            prompt = chunk[0]
            prompt.own += took * min(1.0, self._duration([chunk], *batch) / whole) if is_shared else took
            prompt.began_at = min(prompt.began_at, began)

    def _duration(self, chunks: list[Chunk], num_seqs: int, context: int, pace: float) -> float:
        tokens, work, history = 0, 0.0, 0
        for _, chunk, before in chunks:
            tokens += chunk
            work += chunk * (before + chunk / 2)
            history += chunk * before
        return pace * self._times.mixed(tokens, len(chunks), num_seqs, context, work, history / tokens)

    def steps(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Of each step that was laid: its end, s that it took, and whether no prompt more could have gone into it."""
        ends = [step.ended_at for step, _ in self._found]
        took, full = [step.took for step, _ in self._found], [full for _, full in self._found]
        return np.array(ends, np.float64), np.array(took, np.float64), np.array(full, bool)

    def shares(self) -> tuple[Floats, Floats, Floats, Ints]:
        """Of each prompt in each of them: the step's end, s it made the step longer, s of the step, its tenant."""
        shares = [
            (step.ended_at, (step.took - step.alone) * tokens / step.tokens, step.took * tokens / step.tokens)
            for step, _ in self._found
            for _, tokens, _ in step.chunks
        ]
        tenants = [prompt.tenant for step, _ in self._found for prompt, _, _ in step.chunks]
        columns = np.array(shares, np.float64).reshape(-1, 3)
        return columns[:, 0], columns[:, 1], columns[:, 2], np.array(tenants, np.int64)
