"""Sends alerts through apprise (PagerDuty, DingTalk, Slack, voice and mail gateways, webhooks), in a thread of its own.

Whoever finds out what holds calls `update` and goes on: a slow or dead receiver costs it nothing. apprise is an
optional extra (`pip install plimsoll[alerts]`), imported only where the policy names channels.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from plimsoll.errors import UsageError
from plimsoll.policy.alerts import AlertRules, Severity
from plimsoll.storage.datadir import write_whole
from plimsoll.telemetry.alertdesk import Alert, AlertDesk, Message

TICK: Final = 0.5
"""Seconds between looks for what is due."""
Send = Callable[[Message], bool]
Say = Callable[[str], None]


class Alerts:
    """The desk, the thread that carries its messages out, and the file that keeps what was told over a restart."""

    def __init__(
        self,
        rules: AlertRules,
        send: Send,
        say: Say,
        *,
        kept: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._desk = AlertDesk(rules)
        self._send = send
        self._say = say
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._troubled: set[str] = set()
        self._recall()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._thread.start()

    def update(self, at: float, firing: Sequence[Alert]) -> None:
        """Everything that holds at `at` (UTC epoch s). Returns at once."""
        with self._lock:
            self._desk.update(at, firing)

    def close(self) -> None:
        """Send what is due once more, and stop."""
        self._stop.set()
        self._thread.join(timeout=30.0)

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            self._carry_out()
        self._carry_out()

    def _carry_out(self) -> None:
        with self._lock:
            messages = self._desk.due(self._clock())
        failed: set[str] = set()
        for message in messages:
            if message.channel in failed:
                continue  # due again when the channel is tried again
            arrived = self._sent(message)
            with self._lock:
                (self._desk.delivered if arrived else self._desk.failed)(message, self._clock())
            if not arrived:
                failed.add(message.channel)
            self._tell(message.channel, arrived=arrived)
        if messages:
            self._remember()

    def _sent(self, message: Message) -> bool:
        try:
            return self._send(message)
        except Exception as fault:  # a sender's fault must not end this thread, and with it all alerts
            self._say(f"alert channel {message.channel}: the sender raised {type(fault).__name__}")  # no address in it
            return False

    def _tell(self, channel: str, *, arrived: bool) -> None:
        """Only when it changes."""
        if arrived and channel in self._troubled:
            self._troubled.discard(channel)
            self._say(f"alert channel {channel} takes messages again")
        elif not arrived and channel not in self._troubled:
            self._troubled.add(channel)
            self._say(f"alert channel {channel} does not take messages: trying again, at most every 5 min")

    def _remember(self) -> None:
        if self._kept is None:
            return
        with self._lock:
            text = msgspec.json.encode(self._desk.believed())
        try:
            write_whole(self._kept, text)
        except OSError as error:
            self._say(f"{self._kept} cannot be written ({error.strerror}): after a restart alerts are told again")

    def _recall(self) -> None:
        if self._kept is None or not self._kept.exists():
            return
        try:
            kept = msgspec.json.decode(self._kept.read_bytes(), type=dict[str, list[Alert]])
        except (OSError, msgspec.DecodeError) as error:
            self._say(f"{self._kept} cannot be read ({error}): alerts that were told are told again")
            return
        self._desk.believe(kept, self._clock())


def sender(rules: AlertRules, environment: Mapping[str, str] = os.environ) -> Send:
    """Sends by apprise to the addresses that the policy's variables hold.

    Raises UsageError where a variable is not set or holds no address of apprise, or where apprise is not installed.
    """
    try:
        import apprise  # noqa: PLC0415 - an optional extra, and slow to import
    except ImportError:
        raise UsageError("the policy has alert channels: pip install plimsoll[alerts]") from None
    kinds = {
        None: apprise.NotifyType.SUCCESS,
        Severity.TICKET: apprise.NotifyType.WARNING,
        Severity.PAGE: apprise.NotifyType.FAILURE,
    }
    receivers = {}
    for channel in rules.channels:
        address = environment.get(channel.url_env, "")
        receiver = apprise.Apprise()
        if not address:
            raise UsageError(f"alert channel {channel.name}: the environment variable {channel.url_env} is not set")
        if not receiver.add(address):
            raise UsageError(f"alert channel {channel.name}: {channel.url_env} holds no address that apprise knows")
        receivers[channel.name] = receiver

    def send(message: Message) -> bool:
        receiver = receivers[message.channel]
        return bool(receiver.notify(body=message.body, title=message.title, notify_type=kinds[message.severity]))

    return send
