"""One engine's KV cache events in their order: what was lost, what came twice, when a new process began.

Messages are numbered from 0 when an engine starts. What is known of its blocks is *whole* while every message since
then, or since a message that said all was cleared, has been taken. After a loss that could not be asked for again all
is forgotten (what was lost may have been removals), and what is learnt from then on is less than there is.
"""

from collections.abc import Callable, Iterable
from math import inf

import msgspec

from plimsoll.gateway.kvindex import EngineBlocks
from plimsoll.gateway.kvwire import Batch, Cleared, Removed, Stored, decode

Replay = Callable[[int], Iterable[tuple[int, bytes]] | None]
"""(first number) → the messages from there on that the engine still has, in their order; None: it cannot be asked."""


def no_replay(first: int) -> Iterable[tuple[int, bytes]] | None:
    """Of an engine that keeps none."""
    return None


class Follower:
    """Takes an engine's messages as they come."""

    def __init__(self, blocks: EngineBlocks | None) -> None:
        """`blocks` None: only clears matter."""
        self.blocks = blocks
        self.num_lost = 0  # messages
        self._whole = False
        self._next = 0  # number that is due
        self._heard = -1  # the last that came by itself, not by replay
        self._taken_at = -inf  # the last batch's own time
        self._in_doubt = False  # the connection broke: whoever speaks next may be another process

    @property
    def whole(self) -> bool:
        """Whether all that the engine holds is known."""
        return self._whole and self.blocks is not None and not self.blocks.overflowed

    @property
    def due(self) -> int:
        """The number that its next message should have."""
        return self._next

    def connected(self, replay: Replay) -> None:
        """Begin with all that the engine still has to tell."""
        if self.blocks is not None:
            self._refill(replay, None)

    def broke(self) -> None:
        """The connection did: messages may be missing, and what follows may come from another process."""
        self._in_doubt = True
        self._lose()

    def take(self, sequence: int, payload: bytes, replay: Replay = no_replay) -> bool:
        """The next message; whether the engine's cache was empty at some instant since the one before.

        Raises msgspec.MsgspecError where the batch is of no form that is known.
        """
        try:
            batch = decode(payload)
        except msgspec.MsgspecError:
            self._lose()  # asking for it again would bring the same
            self.num_lost += 1
            self._heard, self._next, self._in_doubt = sequence, sequence + 1, False
            raise
        if self._heard < sequence < self._next and batch.ts <= self._taken_at and not self._in_doubt:
            self._heard = sequence  # replay has brought it before
            return False
        anew = sequence < self._next  # another process, whose cache was empty
        emptied = anew and self._heard >= 0
        due = 0 if anew else self._next
        if anew or self._in_doubt:
            self._lose()
            self._next = 0
        self._heard, self._in_doubt = sequence, False
        if sequence > self._next and self.blocks is not None:
            self._refill(replay, sequence)
        if sequence > self._next:
            self.num_lost += sequence - max(due, self._next)
            self._lose()
        if sequence == 0:
            self._whole = True  # nothing came before it
        self._next = sequence + 1
        return self._apply(batch) or emptied

    def _refill(self, replay: Replay, until: int | None) -> None:
        """Ask for what is due before that number (None: for all there is), and take it in order."""
        told = replay(self._next)
        if told is None:
            return
        if self._next == 0:
            self._whole = True  # as long as the first that it has is the first there was
        for sequence, payload in told:
            if until is not None and sequence >= until:
                break
            if sequence > self._next:
                self.num_lost += sequence - self._next
                self._lose()
            if sequence >= self._next:
                self._next = sequence + 1
                try:
                    self._apply(decode(payload))
                except msgspec.MsgspecError:
                    self._lose()

    def _lose(self) -> None:
        self._whole = False
        if self.blocks is not None:
            self.blocks.clear()

    def _apply(self, batch: Batch) -> bool:
        """Do what it says; whether all was cleared in it."""
        self._taken_at = batch.ts
        cleared = False
        for event in batch.events:
            if isinstance(event, Cleared):
                cleared = self._whole = True
                if self.blocks is not None:
                    self.blocks.clear()
            elif self.blocks is not None:
                if isinstance(event, Stored):
                    self.blocks.store(event)
                elif isinstance(event, Removed):
                    self.blocks.remove(event)
        return cleared
