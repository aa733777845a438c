"""Takes a replica out for a while that fails, or is slow, beyond what the others do: by error and by tail.

Never more than a third of a pool's replicas at once, and never the last: where most are bad, it is not the replica.
"""

from math import log
from typing import Final

from plimsoll.governor.pool import Pool
from plimsoll.governor.replicas import Replica

SMOOTHING: Final = 16.0  # endings that an error ratio remembers
AT_LEAST: Final = 10  # endings before it may be taken out
ERROR_RATIO: Final = 0.5  # it fails that often …
SLOWER: Final = 3.0  # … or takes that many times what is predicted of it, compared with the median of the others
OUT_FOR: Final = 30.0  # s, doubling each time up to
LONGEST: Final = 300.0


def ended(pool: Pool, replica: Replica, at: float, *, error: bool) -> bool:
    """One of its requests ended by the engine's doing or well; whether it is taken out now."""
    replica.num_ended += 1
    replica.error_ratio += (float(error) - replica.error_ratio) / SMOOTHING
    if replica.num_ended < AT_LEAST or not (replica.error_ratio > ERROR_RATIO or _is_slow(pool, replica)):
        return False
    others = [each for each in pool.replicas if each is not replica and not each.leaving]
    if sum([not each.routable(at) for each in others]) + 1 > (len(others) + 1) // 3 or not others:
        return False
    replica.num_ejected += 1
    replica.backoff_until = max(replica.backoff_until, at + min(OUT_FOR * 2.0 ** (replica.num_ejected - 1), LONGEST))
    replica.num_ended, replica.error_ratio, replica.started_at = 0, 0.0, replica.backoff_until
    if replica.predictor is not None:
        replica.predictor.ttft_factor = 1.0
        replica.predictor.slowness = 0.0
        replica.predictor.num = 0
    return True


def _is_slow(pool: Pool, replica: Replica) -> bool:
    own = replica.predictor
    if own is None or own.num < AT_LEAST:
        return False
    others = sorted(
        [
            each.predictor.slowness
            for each in pool.replicas
            if each is not replica and each.predictor is not None and each.predictor.num >= AT_LEAST
        ]
    )
    return bool(others) and own.slowness > log(SLOWER) + others[len(others) // 2]
