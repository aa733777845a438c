"""One tenant's samples in one format, kept from page to page: what has not moved is not written again.

All of a tenant's families are written together, so they tell of one instant.
"""

from collections.abc import Callable
from typing import Final

from plimsoll.telemetry.exposition import Exposition
from plimsoll.telemetry.owners import BOUNDS, VERDICTS, Histogram, Owner, Verdicts

_ENDINGS: Final = ("plimsoll_requests_total", "counter", "Requests that ended, by how and why.")
_VERDICTS: Final = ("plimsoll_verdicts_total", "counter", "What each objective said: requests, of itl tokens.")
_TOKENS: Final = (
    ("plimsoll_prompt_tokens_total", "counter", "Prompt tokens of dispatched requests."),
    ("plimsoll_output_tokens_total", "counter", "Output tokens."),
    ("plimsoll_cached_tokens_total", "counter", "Prompt tokens that engines said were cached."),
)
_TIMES: Final[tuple[tuple[str, str, Callable[[Owner], Histogram]], ...]] = (
    ("plimsoll_ttft_seconds", "Arrival to first token.", lambda owner: owner.ttft),
    ("plimsoll_itl_seconds", "Gaps between successive output tokens.", lambda owner: owner.itl),
    ("plimsoll_e2e_seconds", "Arrival to last token.", lambda owner: owner.e2e),
    ("plimsoll_queued_seconds", "Time in the queue.", lambda owner: owner.queued),
    ("plimsoll_plugins_seconds", "Time that plugins took.", lambda owner: owner.plugins),
)
FAMILIES: Final = (
    *(_ENDINGS, _VERDICTS, *_TOKENS),
    *((name, "histogram", text) for name, text, _ in _TIMES),
)
"""Name, kind, text of each, in the order of `Written.of`."""


class Written:
    """What pages of one format show of an `Owner`."""

    def __init__(self, owner: Owner, tenant: str, tier: str, page: Exposition) -> None:
        """`page` is any of that format."""
        self._owner = owner
        self._labels = {"tenant": tenant, "tier": tier}
        self._version = -1
        self._samples: list[bytes] = []
        self._order: list[int] = []  # of endings by name, as places among those that came
        self._verdicts: list[Verdicts] = []  # by objective's name
        self._ending_series = page.counters(_ENDINGS[0], ())
        self._verdict_series = page.counters(_VERDICTS[0], ())
        self._token_series = [page.counters(name, (self._labels,)) for name, _, _ in _TOKENS]
        self._times = [(read(owner), page.times(name, BOUNDS, self._labels)) for name, _, read in _TIMES]

    @property
    def is_current(self) -> bool:
        """Whether nothing has moved since."""
        return self._version == self._owner.version

    def of(self, page: Exposition) -> list[bytes]:
        """Samples by family, for a page of that format."""
        if not self.is_current:
            self._version = self._owner.version
            self._owner.take_up()
            self._samples = [self._endings(page), self._judged(page), *self._token_counts(), *self._histograms()]
        return self._samples

    def _endings(self, page: Exposition) -> bytes:
        endings = self._owner.endings
        if len(endings) != len(self._order):
            keys = list(endings)
            self._order = sorted(range(len(keys)), key=keys.__getitem__)
            labels = [
                self._labels | {"outcome": str(keys[place][0]), "reason": str(keys[place][1])} for place in self._order
            ]
            self._ending_series = page.counters(_ENDINGS[0], labels)
        nums = list(endings.values())
        return self._ending_series.written([nums[place] for place in self._order])

    def _judged(self, page: Exposition) -> bytes:
        verdicts = self._owner.verdicts
        if len(verdicts) != len(self._verdicts):
            names = sorted(verdicts)
            self._verdicts = [verdicts[name] for name in names]
            labels = [self._labels | {"objective": name, "verdict": verdict} for name in names for verdict in VERDICTS]
            self._verdict_series = page.counters(_VERDICTS[0], labels)
        nums: list[int] = []
        for each in self._verdicts:
            nums += (each.bad, each.censored, each.excluded, each.good)
        return self._verdict_series.written(nums)

    def _token_counts(self) -> list[bytes]:
        owner = self._owner
        nums = (owner.prompt_tokens, owner.output_tokens, owner.cached_tokens)
        return [series.written((num,)) for series, num in zip(self._token_series, nums, strict=True)]

    def _histograms(self) -> list[bytes]:
        return [series.written(told) for told, series in self._times]
