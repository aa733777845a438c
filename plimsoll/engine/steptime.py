"""How long one step of an engine takes, and what an unloaded engine would need for a request.

Symbols, in the order of `StepCoefficients`:

- T    tokens computed in the step, prefill and decode together
- B    sequences that decode in it
- ctx  sum of the KV tokens that those B sequences hold before the step
- PW   prefill attention work: sum over prefill chunks of chunk · (history + chunk / 2)
- KP   mean KV history of the prefill chunks, weighted by chunk

A step without prefill uses the `decode` coefficients, any other the `mixed` ones: the kernels differ, and so do the
slopes (by 1.6 to 2.9 for ctx on vLLM 0.19). Between two events only ctx changes, by B a step, so the durations of a
run of decode steps are an arithmetic progression: that is what makes exact jumps possible. Timing tables (`Tables`)
take the place of the formula where a profile has them; between two of their points the same holds.
"""

from math import inf
from typing import Final

from plimsoll.engine.experts import Experts
from plimsoll.engine.grids import Grid, Line
from plimsoll.engine.profile import EngineProfile

MANY: Final = 1 << 60  # steps: no end


class StepTime:
    """The step times of one profile, as plain floats for the hot path; all results in s."""

    def __init__(self, profile: EngineProfile) -> None:
        decode, mixed = profile.decode, profile.mixed
        self._host = profile.host_factor * (profile.precision.factor if profile.precision else 1.0)
        self._host_seq = profile.host_per_sequence
        self._da, self._de, self._db, self._dc = decode.a, decode.e, decode.b, decode.c
        self._dd, self._df, self._dg = decode.d, decode.f, decode.g
        self._ma, self._me, self._mb, self._mc = mixed.a, mixed.e, mixed.b, mixed.c
        self._md, self._mf, self._mg, self._mp, self._mk = mixed.d, mixed.f, mixed.g, mixed.pw, mixed.kp
        self._experts = Experts(profile.moe) if profile.moe else None
        tables = profile.tables
        grid, line = (tables.decode, tables.mixed) if tables else (None, None)
        self._grid = Grid(grid.num_seqs, grid.context, grid.seconds) if grid else None
        self._line = Line(line.tokens, line.seconds) if line else None

    def decode(self, num_seqs: int, context: int, guesses: int = 0) -> float:
        """A step in which `num_seqs` sequences holding `context` KV tokens in all decode one token each.

        `guesses` are tokens of a draft that are verified beside.
        """
        tokens = num_seqs + guesses
        linear = max(self._da + self._de * tokens, self._db * tokens + self._dc)
        if self._grid is None:
            kernels = linear + self._dd + self._df * num_seqs + self._dg * context
        else:  # it knows no guesses: the formula says what they add
            plain = max(self._da + self._de * num_seqs, self._db * num_seqs + self._dc)
            kernels = self._grid.at(num_seqs, context) + linear - plain
        if self._experts is not None:
            kernels += self._experts.added(tokens, linear)
        return self._host * kernels + self._host_seq * num_seqs

    def balancedness(self, tokens: int) -> float | None:
        """Mean load of the experts' ranks ÷ that of the busiest in a step of so many tokens; None without experts."""
        return None if self._experts is None else 1.0 / self._experts.imbalance(tokens)

    def at_work(self, num_seqs: int, context: int, guesses: int = 0) -> float:
        """Share of a decode step in which the mean GPU works: not on its host, on the way, or for the busiest rank."""
        whole = self.decode(num_seqs, context, guesses)
        if self._experts is None or whole <= 0.0:
            return 1.0
        tokens = num_seqs + guesses
        linear = max(self._da + self._de * tokens, self._db * tokens + self._dc)
        return max(0.0, 1.0 - self._host * self._experts.added(tokens, linear) / whole)

    def growth(self, num_seqs: int, context: int = 0) -> float:
        """By how much each decode step of an unchanged batch is longer than the one before it, from `context` on."""
        slope = self._dg if self._grid is None else self._grid.slope(num_seqs, context)
        return self._host * slope * num_seqs

    def steps_alike(self, num_seqs: int, context: int) -> int:
        """How many decode steps from one at `context` on follow that growth, this one among them; at least 1."""
        if self._grid is None:
            return MANY
        edge = self._grid.edge(context)
        return MANY if edge == inf else max(1, int((edge - context) // num_seqs) + 1)

    def mixed(  # noqa: PLR0917 - the symbols of the formula, called once a step
        self,
        prefill: int,
        num_prefills: int,
        num_seqs: int,
        context: int,
        work: float,
        history: float,
        guesses: int = 0,
    ) -> float:
        """A step that computes `prefill` prompt tokens of `num_prefills` requests beside the decoding ones.

        `work` is PW and `history` is KP, see above.
        """
        tokens = prefill + num_seqs + guesses
        if self._line is not None:
            linear = self._line.at(tokens)
        else:
            linear = max(self._ma + self._me * tokens, self._mb * tokens + self._mc)
        kernels = linear + self._md + self._mf * num_seqs + self._mg * context + self._mp * work + self._mk * history
        if self._experts is not None:
            kernels += self._experts.added(tokens, linear)
        return self._host * kernels + self._host_seq * (num_seqs + num_prefills)


def unloaded_ttft(profile: EngineProfile, prompt_tokens: int, cached: int = 0) -> float:
    """Seconds from submission to first token on an idle replica, `cached` prompt tokens being in its prefix cache.

    A prompt that is cached whole still computes its last token, as in vLLM.
    """
    steps = StepTime(profile)
    done = max(0, min(cached, prompt_tokens - 1))
    total = profile.frontend
    while done < prompt_tokens:
        chunk = min(profile.max_batched_tokens, prompt_tokens - done)
        total += steps.mixed(chunk, 1, 0, 0, chunk * (done + chunk / 2), float(done))
        done += chunk
    return total


def unloaded_tpot(profile: EngineProfile, context: int = 1024) -> float:
    """Seconds a token for one sequence alone on a replica, at `context` KV tokens."""
    return StepTime(profile).decode(1, context)


def unloaded_e2e(profile: EngineProfile, prompt_tokens: int, output_tokens: int, cached: int = 0) -> float:
    """Seconds from submission to last token on an idle replica."""
    left, context = max(0, output_tokens - 1), prompt_tokens
    steps = StepTime(profile)
    total = unloaded_ttft(profile, prompt_tokens, cached)
    while left > 0:
        num = min(left, steps.steps_alike(1, context))
        total += num * steps.decode(1, context) + steps.growth(1, context) * num * (num - 1) / 2
        left, context = left - num, context + num
    return total
