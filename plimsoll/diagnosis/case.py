"""What candidates of root causes look at, and what they answer."""

from typing import Final

from msgspec import Struct

from plimsoll.diagnosis.enginesignals import EngineSignal
from plimsoll.diagnosis.excess import Excess
from plimsoll.diagnosis.remedies import REMEDIES, CauseKind
from plimsoll.diagnosis.signals import Signals
from plimsoll.diagnosis.timeparts import Part

ACCUSE: Final = 0.3
"""Likelihood below which nothing is named as the cause."""
SLOWER: Final = 1.25
"""A pace so many times another one is slower."""
MORE: Final = 1.2
"""Requests, or tokens, so many times those of before are more."""
WAITING: Final = (Part.GATEWAY_QUEUE, Part.ENGINE_QUEUE, Part.KV_PRESSURE)
SHARED: Final = (*WAITING, Part.OTHERS_PREFILL)
"""Parts of a request's time that others may have made."""


class Cause(Struct, frozen=True):
    """A root cause, with what speaks for and against it. `subject` is a tenant's or replica's name, or empty."""

    kind: CauseKind
    subject: str
    likelihood: float
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    remedy: str
    try_it: str


class Case(Struct, frozen=True):
    """All that the candidates look at. `victim` is the tenant that is slow; empty: the whole service."""

    victim: str
    excess: Excess
    signals: Signals
    by_replica: dict[str, float]  # share of the slow requests that each replica served
    culprits: dict[str, float]  # share of the slow requests' extra waiting for others, by tenant
    failed_share: float  # of the bad requests, those that an engine failed
    engines: tuple[EngineSignal, ...] = ()  # what replicas said of themselves; (): nothing is known of it
    attributed: float = 1.0  # share of the extra waiting that lies behind anybody's requests
    adapter_share: float = 0.0  # of the slow requests, those that need an adapter
    unserved: float = 0.0  # of the bad requests, those refused because no replica was up
    behind: dict[Part, float] = {}  # share of the excess in our queue for requests that a stall, or a client, kept

    @property
    def crowded(self) -> float:
        """Share of the excess that others may have made: waiting, their prompts, and decoding in fuller batches."""
        batch = self.excess.share(Part.DECODE) if self._batches_are_fuller else 0.0
        return self.excess.share(*SHARED) + batch

    @property
    def _batches_are_fuller(self) -> bool:
        """Whether more is sent than before and steps take as long as the model says of such batches, as they did."""
        paces = [(each.pace_before, each.pace_during) for each in self.signals.replicas if each.num_during]
        as_before = [before and during and during < SLOWER * before for before, during in paces]
        return (self.signals.load or 0.0) >= MORE and bool(as_before) and all(as_before)

    def share_with_queue(self, part: Part) -> float:
        """Share of the excess in a part, and in our queue for requests that it kept."""
        return min(1.0, self.excess.share(part) + self.behind.get(part, 0.0))


Found = tuple[float, tuple[str, ...], tuple[str, ...]]
"""Likelihood, evidence, counter-evidence."""


def cause_of(kind: CauseKind, subject: str, found: Found) -> Cause:
    """The cause with its remedy."""
    remedy, try_it = REMEDIES[kind]
    return Cause(kind, subject, round(min(1.0, found[0]), 3), found[1], found[2], remedy, try_it)
