"""Computing prompts is room, too: a replica computes one long prompt at a time, and whoever comes meanwhile waits.

So a lower tier's prompts that take more than one step have a floor in time as its KV has one in blocks: by its share,
in proportion to the others', it earns seconds of computation as time passes, all replicas together, and a prompt
starts while there are some left, and pays for itself and its output, if need be in advance. A tier without a share
earns what no tier holds. A minute's earnings are saved up, since whoever keeps to its share asks for more of it in one
half minute than in the next; but they are spent hardly faster than they are earned, or a neighbour that was quiet and
then floods would move those above it for as long as they last. Beyond that it borrows from the tiers above, on the
terms on which every idle floor is lent: only what is over within the lender's `wait`.
"""

from typing import Final

from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime, unloaded_ttft

DEPTH: Final = 60.0  # s of earning that may be saved up: prompts come by chance, also those of the well-behaved
PEAK: Final = 1.25  # times that rate it is spent at, at most …
BURST: Final = 10.0  # … but for so many s of earning, which may be spent at once
DEBT: Final = 30.0  # s of earning that one prompt may cost in advance: whoever is in debt starts again within that


class PromptFloors:
    """One a pool: by lane (tier queue), in order of rank, the highest first; its own prompts wait for nobody."""

    def __init__(self, shares: list[float], waits: list[float]) -> None:
        held = sum(shares)
        free = max(0.0, 1.0 - held)
        self._shares = [share / held if share > 0.0 else free for share in shares]
        self._holds = [share > 0.0 for share in shares]
        self._waits = waits
        self._saved = [0.0] * len(shares)
        self._at_hand = [0.0] * len(shares)  # of what is saved, what may be spent now
        self._looked_at = [0.0] * len(shares)
        self.num_replicas = 1
        self.token_time = 0.0  # s a prompt token; 0: not known, so nothing can be said of time
        self.square_time = 0.0  # s a pair of a prompt's tokens: attention
        self.output_time = 0.0  # s by which an output token makes a step longer …
        self.held_time = 0.0  # … and each token of context that it looks back on

    def time_by(self, profile: EngineProfile) -> None:
        """A line and a square through what a long prompt and one twice as long take on an idle replica; and by what
        one more sequence, and more context, make a step of a busy one longer."""
        half = 4 * profile.max_batched_tokens
        once, twice = unloaded_ttft(profile, half), unloaded_ttft(profile, 2 * half)
        self.square_time = max(0.0, (twice - 2.0 * once) / (2.0 * half * half))
        self.token_time = once / half - half * self.square_time
        busy, steps = profile.max_num_seqs // 2, StepTime(profile)
        self.output_time = steps.decode(busy + 1, 0) - steps.decode(busy, 0)
        self.held_time = (steps.decode(busy, half) - steps.decode(busy, 0)) / half

    def takes(self, tokens: int) -> float:
        """Seconds to compute a prompt of so many tokens, or several of so many in all (then it is a bound)."""
        return tokens * (self.token_time + tokens * self.square_time)

    def may_start(self, lane: int, tokens: int, closed: list[bool], at: float) -> bool:
        """Whether a long prompt of that lane may start on a replica that then has so many tokens to compute.

        `closed` by lane: a spent budget there forbids to lend on time.
        """
        if self.token_time == 0.0 or self._has_some(lane, at):
            return True
        seconds = self.takes(tokens)
        for lender in range(lane):
            if self._holds[lender] and (closed[lender] or self._waits[lender] < seconds):
                return False
        return True

    def costs(self, tokens: int, output: int) -> float:
        """Seconds of a busy replica that a request takes, so many tokens of its prompt not cached."""
        return self.takes(tokens) + output * (self.output_time + tokens * self.held_time)

    def started(self, lane: int, seconds: float, at: float) -> None:
        """A long prompt of that lane is computed, which costs so much: it pays, or is in debt."""
        self._earn(lane, at)
        rate = self._rate(lane)
        self._saved[lane] = max(self._saved[lane] - seconds, -DEBT * rate)
        self._at_hand[lane] = max(self._at_hand[lane] - seconds, -DEBT * PEAK * rate)

    def _has_some(self, lane: int, at: float) -> bool:
        self._earn(lane, at)
        return self._saved[lane] > 0.0 and self._at_hand[lane] > 0.0

    def _earn(self, lane: int, at: float) -> None:
        """What time brought since it was last looked at; all is there at the beginning."""
        rate = self._rate(lane)
        looked_at = self._looked_at[lane]
        earned = DEPTH * rate if looked_at == 0.0 else (at - looked_at) * rate
        self._saved[lane] = min(self._saved[lane] + earned, DEPTH * rate)
        self._at_hand[lane] = min(self._at_hand[lane] + PEAK * earned, BURST * rate)
        self._looked_at[lane] = at

    def _rate(self, lane: int) -> float:
        return self._shares[lane] * self.num_replicas
