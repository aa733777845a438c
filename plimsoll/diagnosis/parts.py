"""Where the time of each request went: parts that sum to the whole, each with how it is known.

| part | what | known |
|---|---|---|
| upstream | spent before us, as reported | reported |
| plugins | what the policy's plugins took before the request was decided upon | measured |
| gateway_queue | arrival to dispatch, without them | measured |
| engine_queue | dispatch to the first step that computes its prompt | inferred |
| kv_pressure | the same while the replica had no KV blocks left, and what preemption cost | inferred |
| own_prefill | the steps of its own prompt, as they would have been without other prompts | inferred |
| others_prefill | by how much other prompts made its steps longer, before the first token and after | inferred |
| decode | its own tokens beside the others that decoded | inferred |
| stall | one gap that neither batch nor blocks explain, or waiting in an engine without a sign of life | measured |
| client | time for which the client did not take what was ready | measured |
| unknown | what is left: the network, the engine's front end, errors of the model; what died with the gateway | – |

Only rows are looked at, so a live log, a simulated one and a foreign one are read alike; the truth that a simulator
has is used in tests alone.
"""

from collections.abc import Mapping

import numpy as np

from plimsoll.diagnosis.replicarows import ReplicaRows
from plimsoll.diagnosis.timeparts import COLUMN, HOW, PARTS, Part, TimeParts
from plimsoll.diagnosis.visits import Floats, Visits
from plimsoll.engine.profile import EngineProfile


def time_parts(visits: Visits, profiles: Mapping[str, EngineProfile]) -> TimeParts:
    """The parts of every row. `profiles` by pool; rows of other pools have their engine's time as unknown."""
    num = visits.num
    seconds = np.zeros((num, len(PARTS)))
    found = TimeParts(
        seconds,
        np.zeros(num),
        np.zeros((num, max(1, len(visits.tenant.names)))),
        np.zeros(num, bool),
        np.full(num, np.nan),
    )
    ended = np.fmax(visits.ended, visits.arrived)
    seconds[:, COLUMN[Part.UPSTREAM]] = np.nan_to_num(visits.upstream)
    reached = ~np.isnan(visits.dispatched)
    queue_end = np.where(reached, visits.dispatched, np.where(visits.interrupted, visits.arrived, visits.finished))
    waited = np.maximum(0.0, queue_end - visits.arrived)
    seconds[:, COLUMN[Part.PLUGINS]] = plugins = np.clip(np.nan_to_num(visits.plugins), 0.0, waited)
    seconds[:, COLUMN[Part.GATEWAY_QUEUE]] = waited - plugins
    ended = np.fmax(ended, queue_end)
    client = np.minimum(np.nan_to_num(visits.client_stall), ended - queue_end)
    seconds[:, COLUMN[Part.CLIENT]] = client
    for pool_code, pool in enumerate(visits.pool.names):
        profile = profiles.get(pool)
        if profile is None:
            continue
        here = reached & (visits.pool.codes == pool_code)
        for code in np.unique(visits.replica.codes[here]):
            rows = np.flatnonzero(here & (visits.replica.codes == code))
            ReplicaRows(visits, rows, profile).fill(found)
    found.total[:] = ended - visits.arrived + seconds[:, COLUMN[Part.UPSTREAM]]
    _settle(seconds, found.total)
    return found


def _settle(seconds: Floats, total: Floats) -> None:
    """Make the parts sum to the whole: what is missing is unknown, what is too much is taken from the inferred.

    Of those is a stall: a client may have held an answer back at the same time.
    """
    unknown = COLUMN[Part.UNKNOWN]
    inferred = [COLUMN[part] for part in PARTS if HOW[part] == "inferred" or part is Part.STALL]
    known = seconds.sum(axis=1) - seconds[:, inferred].sum(axis=1) - seconds[:, unknown]
    guessed = seconds[:, inferred].sum(axis=1)
    room = np.maximum(0.0, total - known)
    scale = np.where(guessed > room, room / np.where(guessed > 0.0, guessed, 1.0), 1.0)
    seconds[:, inferred] *= scale[:, None]
    seconds[:, unknown] = np.maximum(0.0, total - known - guessed * scale)
