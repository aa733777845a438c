"""Space: whose requests kept whose waiting, as a matrix tenant × tenant of seconds.

A second in our queue is split by what each tenant then held of the pool (KV reserved, in blocks; where the log has
none, prompt tokens): place is what one waits for. A second in the engine goes to those whose prompts were computed in
it (`parts.py`). The diagonal is what a tenant did to itself.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.diagnosis.curves import LinearSum
from plimsoll.diagnosis.timeparts import COLUMN, Part, TimeParts
from plimsoll.diagnosis.visits import Floats, Ints, Visits

MAX_NAMED: Final = 32
"""Tenants told apart as culprits, those that held most; the others are one."""
OTHERS: Final = "(others)"


class Crowding(Struct, frozen=True):
    """Seconds that the requests of `victims[i]` waited because of `culprits[j]`."""

    victims: tuple[str, ...]
    culprits: tuple[str, ...]
    queue: Floats  # (victims, culprits): in our queue
    engine: Floats  # (victims, culprits): in engines' queues, and behind or beside others' prompts

    @property
    def seconds(self) -> Floats:
        """Both together."""
        total: Floats = self.queue + self.engine
        return total

    def worst(self, victim: str) -> tuple[str, float] | None:
        """Who else cost a tenant most, and the share of all its waiting; None where nobody else did."""
        if victim not in self.victims:
            return None
        row = self.seconds[self.victims.index(victim)].copy()
        total = float(row.sum())
        row[[index for index, name in enumerate(self.culprits) if name == victim]] = 0.0
        if total <= 0.0 or row.max() <= 0.0:
            return None
        return self.culprits[int(row.argmax())], float(row.max()) / total


def crowding(visits: Visits, parts: TimeParts, rows: Ints | None = None) -> Crowding:
    """The matrix over the waiting of `rows` (default: all); the others are only looked at as culprits."""
    chosen = np.arange(visits.num) if rows is None else rows
    names = visits.tenant.names
    codes = visits.tenant.codes
    queue, engine = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    np.add.at(queue, codes[chosen], _queued(visits, parts, chosen))
    np.add.at(engine, codes[chosen], parts.crowded[chosen, : len(names)])
    return _named(names, queue, engine)


def waited_for(visits: Visits, parts: TimeParts, rows: Ints) -> Floats:
    """Seconds that `rows` waited together for each tenant, in the order of the tenants' names; none is folded."""
    seconds = _queued(visits, parts, rows) + parts.crowded[rows, : len(visits.tenant.names)]
    total: Floats = seconds.sum(axis=0)
    return total


def _queued(visits: Visits, parts: TimeParts, rows: Ints) -> Floats:
    """Of each row's time in our queue, the seconds for each tenant."""
    by_row = np.zeros((len(rows), len(visits.tenant.names)))
    wait = parts.seconds[rows, COLUMN[Part.GATEWAY_QUEUE]]
    for pool in np.unique(visits.pool.codes[rows]):
        here = np.flatnonzero((visits.pool.codes[rows] == pool) & (wait > 0.0))
        by_row[here] = wait[here, None] * _held(visits, rows[here], int(pool))
    return by_row


def _held(visits: Visits, rows: Ints, pool: int) -> Floats:
    """What each tenant held of a pool, on average, while each row waited; rows sum to 1."""
    running = np.flatnonzero((visits.pool.codes == pool) & ~np.isnan(visits.dispatched))
    size = np.where(visits.reserved[running] > 0, visits.reserved[running], np.maximum(1, visits.prompt[running]))
    start, end = visits.dispatched[running], np.fmax(visits.ended[running], visits.dispatched[running])
    waited_from, waited_to = visits.arrived[rows], np.fmax(visits.dispatched[rows], visits.arrived[rows])
    waited_to = np.where(np.isnan(visits.dispatched[rows]), visits.finished[rows], waited_to)
    shares = np.zeros((len(rows), len(visits.tenant.names)))
    for tenant in np.unique(visits.tenant.codes[running]):
        his = visits.tenant.codes[running] == tenant
        held = LinearSum(start[his], end[his], size[his].astype(np.float64))
        shares[:, tenant] = np.maximum(0.0, held.until(waited_to) - held.until(waited_from))
    whole = shares.sum(axis=1)
    empty = whole <= 0.0  # nobody ran: it waited for its own turn only
    shares[empty, visits.tenant.codes[rows][empty]] = 1.0
    result: Floats = shares / np.where(empty, 1.0, whole)[:, None]
    return result


def _named(names: tuple[str, ...], queue: Floats, engine: Floats) -> Crowding:
    if len(names) <= MAX_NAMED:
        return Crowding(names, names, queue, engine)
    order = np.argsort(-(queue + engine).sum(axis=0), kind="stable")
    kept, rest = order[:MAX_NAMED], order[MAX_NAMED:]
    fold = [np.column_stack((part[:, kept], part[:, rest].sum(axis=1))) for part in (queue, engine)]
    return Crowding(names, (*(names[i] for i in kept), OTHERS), fold[0], fold[1])
