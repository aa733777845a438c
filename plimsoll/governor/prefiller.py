"""Engines that only compute prompts: they hand the KV cache over to the replica that then decodes.

Which one computes a prompt is chosen by the prompt tokens before it. One that fails is left alone for a while, and the
prompt is computed where it will be decoded: nobody's request depends on a transfer.
"""

from typing import Final

from plimsoll.governor.events import ReplicaReport
from plimsoll.slo.outcome import Reason

BACKOFF: Final = 0.5  # s after a failure, doubling up to
LONGEST: Final = 8.0
LONGEST_ASKED: Final = 60.0  # s; of a Retry-After that asks for more, so much is believed


class Prefiller:
    """One of them, as far as it has told and as we have used it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.healthy = False
        self.backoff_until = 0.0
        self.pending_prompt = 0  # prompt tokens sent there and not computed yet, as far as we know
        self.num_sent = 0
        self.num_failed = 0
        self._failures = 0  # in a row

    def reported(self, report: ReplicaReport) -> None:
        """Its own word."""
        self.healthy = report.healthy

    def routable(self, at: float) -> bool:
        """Whether a prompt may be sent there now."""
        return self.healthy and at >= self.backoff_until

    def takes(self, tokens: int) -> None:
        """It computes the prompt of a request that is being dispatched."""
        self.pending_prompt += tokens
        self.num_sent += 1

    def done(self, tokens: int) -> None:
        """It has, or its request is over, or another one does."""
        self.pending_prompt -= tokens

    def worked(self) -> None:
        """What it computed was taken over."""
        self._failures = 0

    def failed(self, at: float, reason: Reason, retry_after: float) -> None:
        """It has not: leave it alone for a while."""
        self.num_failed += 1
        self._failures += 1
        pause = min(BACKOFF * 2.0 ** min(self._failures - 1, 10), LONGEST)
        self.backoff_until = max(self.backoff_until, at + (min(retry_after, LONGEST_ASKED) or pause))
        if reason in {Reason.CONNECT_FAILED, Reason.CONNECTION_LOST}:
            self.healthy = False
