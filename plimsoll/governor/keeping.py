"""For a large request that has been passed often enough: the one replica where it will soonest fit keeps room for it.

Kept everywhere, its room would stand empty on all replicas but the one that takes it in the end.
"""

from plimsoll.governor.pool import Pool
from plimsoll.governor.replicas import Replica
from plimsoll.governor.request import Request
from plimsoll.governor.routing import open_to


def was_passed_enough(pool: Pool, head: Request, at: float) -> bool:
    """Whether nobody may pass it any more: so many did, or it has been waiting for so long."""
    return head.bypassed >= pool.bypasses or at - head.came_at >= pool.bypass_for


def keeps_room(pool: Pool, replica: Replica, head: Request, at: float) -> bool:
    """Whether that replica keeps its room for the head. Chosen once: a later choice would start the wait anew."""
    kept = head.kept_index
    if kept < 0 or kept >= len(pool.replicas) or not open_to(pool.replicas[kept], head, at):
        head.kept_index = kept = _soonest(pool, head, at)
    return kept == replica.index


def is_kept(pool: Pool, replica: Replica, at: float) -> bool:
    """Whether that replica keeps its room for a head."""
    for lane in pool.lanes:
        head = lane.head() if lane.num else None
        if head is not None and head.kept_index == replica.index and was_passed_enough(pool, head, at):
            return True
    return False


def _soonest(pool: Pool, head: Request, at: float) -> int:
    """By predicted releases; where they are not known, the one that lacks least. -1: none may be sent the head."""
    best = -1
    best_key = (0, 0, 0)
    for replica in pool.replicas:
        if not open_to(replica, head, at):
            continue
        lacking = replica.units_for(head) - (replica.limit - replica.reserved)
        bucket = replica.back_by(lacking, in_slots=False)
        if replica.slot_room is not None and bucket is not None:
            slot_bucket = replica.back_by(replica.num_in_flight + 1 - replica.slots, in_slots=True)
            bucket = None if slot_bucket is None else max(bucket, slot_bucket)
        key = (0, bucket, lacking) if bucket is not None else (1, 0, lacking)
        if best < 0 or key < best_key:
            best, best_key = replica.index, key
    return best
