"""Space: whose requests kept whose waiting, as a matrix tenant × tenant of seconds.

A second in our queue is split by who then held the pool (KV reserved, in blocks; where the log has none, prompt
tokens): place is what one waits for. Whoever held it and was itself kept by others' prompts passes that share on to
them; what it spent in an engine's silence, or for a client that did not read, is no tenant's. A second in the engine
goes to those whose prompts were computed in it (`parts.py`). The diagonal is what a tenant did to itself.
"""

from typing import Final

import numpy as np
from msgspec import Struct

from plimsoll.diagnosis.curves import Stays
from plimsoll.diagnosis.timeparts import COLUMN, Part, TimeParts
from plimsoll.diagnosis.visits import Floats, Ints, Visits

MAX_NAMED: Final = 32
"""Tenants told apart as culprits, those that held most; the others are one."""
OTHERS: Final = "(others)"
NOBODYS: Final = (Part.STALL, Part.CLIENT)
"""Parts of a request's stay for which nobody's prompts are to blame."""


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
    np.add.at(queue, codes[chosen], _queued(visits, parts, chosen)[:, : len(names)])
    np.add.at(engine, codes[chosen], parts.crowded[chosen, : len(names)])
    return _named(names, queue, engine)


def waited_for(visits: Visits, parts: TimeParts, rows: Ints) -> Floats:
    """Seconds that `rows` waited together for each tenant, in the order of the tenants' names; none is folded.

    Behind these, those for each part of NOBODYS: in our queue, for requests that were kept by it.
    """
    num = len(visits.tenant.names)
    total: Floats = _queued(visits, parts, rows).sum(axis=0)
    total[:num] += parts.crowded[rows, :num].sum(axis=0)
    return total


def _queued(visits: Visits, parts: TimeParts, rows: Ints) -> Floats:
    """Of each row's time in our queue, the seconds for each tenant, and then those for each part of NOBODYS."""
    by_row = np.zeros((len(rows), len(visits.tenant.names) + len(NOBODYS)))
    wait = parts.seconds[rows, COLUMN[Part.GATEWAY_QUEUE]]
    for pool in np.unique(visits.pool.codes[rows]):
        here = np.flatnonzero((visits.pool.codes[rows] == pool) & (wait > 0.0))
        if not here.size:
            continue
        by_row[here] = wait[here, None] * _held(visits, parts, rows[here], int(pool))
    return by_row


def _held(visits: Visits, parts: TimeParts, rows: Ints, pool: int) -> Floats:
    """For whom a pool was held, on average, while each row waited; rows sum to 1."""
    running = np.flatnonzero((visits.pool.codes == pool) & ~np.isnan(visits.dispatched))
    size = np.where(visits.reserved[running] > 0, visits.reserved[running], np.maximum(1, visits.prompt[running]))
    start, end = visits.dispatched[running], np.fmax(visits.ended[running], visits.dispatched[running])
    waited_from, waited_to = visits.arrived[rows], np.fmax(visits.dispatched[rows], visits.arrived[rows])
    waited_to = np.where(np.isnan(visits.dispatched[rows]), visits.finished[rows], waited_to)
    kept = _kept_by(visits, parts, running, end - start)
    held = Stays(start, end, waited_from, waited_to)
    shares = np.column_stack([held.integral(size * kept[:, column]) for column in range(kept.shape[1])])
    whole = shares.sum(axis=1)
    empty = whole <= 0.0  # nobody ran: it waited for its own turn only
    shares[empty, visits.tenant.codes[rows][empty]] = 1.0
    result: Floats = shares / np.where(empty, 1.0, whole)[:, None]
    return result


def _kept_by(visits: Visits, parts: TimeParts, running: Ints, stay: Floats) -> Floats:
    """Of each running request's stay, the shares due to each tenant, its own among them, and to each part of NOBODYS;
    they sum to 1."""
    nobodys = [parts.seconds[running, COLUMN[part]] for part in NOBODYS]
    kept = np.column_stack((parts.crowded[running, : len(visits.tenant.names)], *nobodys))
    kept /= np.maximum(np.maximum(stay, kept.sum(axis=1)), 1e-9)[:, None]
    kept[np.arange(running.size), visits.tenant.codes[running]] += np.maximum(0.0, 1.0 - kept.sum(axis=1))
    return kept


def _named(names: tuple[str, ...], queue: Floats, engine: Floats) -> Crowding:
    if len(names) <= MAX_NAMED:
        return Crowding(names, names, queue, engine)
    order = np.argsort(-(queue + engine).sum(axis=0), kind="stable")
    kept, rest = order[:MAX_NAMED], order[MAX_NAMED:]
    fold = [np.column_stack((part[:, kept], part[:, rest].sum(axis=1))) for part in (queue, engine)]
    return Crowding(names, (*(names[i] for i in kept), OTHERS), fold[0], fold[1])
