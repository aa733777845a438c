"""Decides what each receiver is told: the difference between what it believes and what holds.

Every minute the desk is given all alerts that hold. A channel believes what was last delivered to it; whatever differs
is due, and stays due until a delivery has succeeded. So nothing is told twice, a failed message is sent again as what
is true by then, and what began and ended while a receiver was away is not told at all.
"""

from collections import deque
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from plimsoll.policy.alerts import AlertChannel, AlertRules, Severity

MINUTE: Final = 60.0
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 300.0
"""Seconds between attempts while a receiver does not answer; they double."""
_RANK: Final = {Severity.TICKET: 0, Severity.PAGE: 1}


class Alert(Struct, frozen=True):
    """Something that holds and that somebody must know. One `key` is one thing, whatever its texts say."""

    key: str
    severity: Severity
    title: str
    body: str


class Change(StrEnum):
    """What a receiver is told of an alert."""

    FIRING = "firing"
    WORSE = "worse"  # more urgent than it was
    STILL = "still firing"
    RESOLVED = "resolved"


class News(Struct, frozen=True):
    """One change of one alert."""

    change: Change
    alert: Alert


class Message(Struct, frozen=True):
    """What goes to one channel at once: one piece of news, or all that is more than the channel's rate."""

    channel: str
    news: tuple[News, ...]

    @property
    def title(self) -> str:
        """One line."""
        if len(self.news) == 1:
            return f"[{self.news[0].change.value}] {self.news[0].alert.title}"
        begun = sum(each.change is not Change.RESOLVED for each in self.news)
        return f"[{begun} firing, {len(self.news) - begun} resolved] error budgets"

    @property
    def body(self) -> str:
        """The alert's own text, or a line each."""
        if len(self.news) == 1:
            return self.news[0].alert.body
        return "\n".join(f"[{each.change.value}] {each.alert.title}" for each in self.news)

    @property
    def severity(self) -> Severity | None:
        """The most urgent of what holds; None: all of it is over."""
        held = [each.alert.severity for each in self.news if each.change is not Change.RESOLVED]
        return max(held, key=_RANK.__getitem__) if held else None


class _Held(Struct):
    """An alert that holds, or has only just ceased to."""

    alert: Alert
    since: float
    seen_at: float


class _Belief(Struct):
    """What a receiver was last told of an alert that it takes to hold."""

    alert: Alert
    told_at: float


class _Channel:
    """One receiver: what it believes, and when it may be sent something again."""

    def __init__(self, channel: AlertChannel) -> None:
        self.channel = channel
        self.beliefs: dict[str, _Belief] = {}
        self.sent_at: deque[float] = deque()
        self.pause = FIRST_PAUSE
        self.not_before = float("-inf")

    def news(self, held: dict[str, Alert], at: float, repeat_every: float) -> list[News]:
        """What differs between belief and truth, the most urgent first."""
        mine = {key: each for key, each in held.items() if _RANK[each.severity] >= _RANK[self.channel.severity]}
        found = [News(change, each) for each in mine.values() if (change := self._change(each, at, repeat_every))]
        over = [News(Change.RESOLVED, each.alert) for key, each in self.beliefs.items() if key not in mine]
        return sorted(found, key=lambda each: (-_RANK[each.alert.severity], each.alert.key)) + over

    def _change(self, alert: Alert, at: float, repeat_every: float) -> Change | None:
        belief = self.beliefs.get(alert.key)
        if belief is None:
            return Change.FIRING
        if _RANK[alert.severity] > _RANK[belief.alert.severity]:
            return Change.WORSE
        return Change.STILL if at - belief.told_at >= repeat_every else None


class AlertDesk:
    """The state of all alerts and receivers. Reads no clock and sends nothing."""

    def __init__(self, rules: AlertRules) -> None:
        self._rules = rules
        self._held: dict[str, _Held] = {}
        self._channels = {each.name: _Channel(each) for each in rules.channels}

    def update(self, at: float, firing: Iterable[Alert]) -> None:
        """All that holds at `at`; what is not among it ceases to, after `resolve_after`."""
        for alert in firing:
            before = self._held.get(alert.key)
            self._held[alert.key] = _Held(alert, before.since if before else at, at)
        limit = at - self._rules.resolve_after
        ended = [key for key, held in self._held.items() if held.seen_at < at and held.seen_at <= limit]
        for key in ended:
            del self._held[key]

    def due(self, at: float) -> list[Message]:
        """What may be sent now: within each channel's rate, and not while one that failed is left in peace."""
        truth = {key: self._as_urgent_as_old(held, at) for key, held in self._held.items()}
        return [
            Message(name, part)
            for name, channel in self._channels.items()
            if at >= channel.not_before
            for part in self._portions(channel.news(truth, at, self._rules.repeat_every), self._room(channel, at))
        ]

    def delivered(self, message: Message, at: float) -> None:
        """The receiver has it, and believes it."""
        channel = self._channels[message.channel]
        channel.pause, channel.not_before = FIRST_PAUSE, float("-inf")
        channel.sent_at.append(at)
        for each in message.news:
            if each.change is Change.RESOLVED:
                channel.beliefs.pop(each.alert.key, None)
            else:
                channel.beliefs[each.alert.key] = _Belief(each.alert, at)

    def failed(self, message: Message, at: float) -> None:
        """It did not arrive: what is true then is sent after a pause."""
        channel = self._channels[message.channel]
        channel.sent_at.append(at)
        channel.not_before = at + channel.pause
        channel.pause = min(2 * channel.pause, LONGEST_PAUSE)

    def believed(self) -> dict[str, list[Alert]]:
        """What each channel takes to hold, to be kept over a restart."""
        return {name: [each.alert for each in channel.beliefs.values()] for name, channel in self._channels.items()}

    def believe(self, kept: dict[str, list[Alert]], at: float) -> None:
        """Go on from what was kept; channels that are gone are forgotten."""
        for name, channel in self._channels.items():
            for alert in kept.get(name, []):
                channel.beliefs[alert.key] = _Belief(alert, at)
                self._held.setdefault(alert.key, _Held(alert, at, at))

    def _as_urgent_as_old(self, held: _Held, at: float) -> Alert:
        after = self._rules.escalate_after
        if after is None or held.alert.severity is Severity.PAGE or at - held.since < after:
            return held.alert
        return Alert(held.alert.key, Severity.PAGE, held.alert.title, held.alert.body)

    def _room(self, channel: _Channel, at: float) -> int:
        while channel.sent_at and channel.sent_at[0] <= at - MINUTE:
            channel.sent_at.popleft()
        return self._rules.per_minute - len(channel.sent_at)

    @staticmethod
    def _portions(news: list[News], room: int) -> list[tuple[News, ...]]:
        """One message a piece while there is room, and the rest in the last."""
        if room <= 0 or not news:
            return []
        if len(news) <= room:
            return [(each,) for each in news]
        return [*((each,) for each in news[: room - 1]), tuple(news[room - 1 :])]
