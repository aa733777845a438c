"""What a replica's steps with prompts in them must have been, from who got its first token when.

An engine with chunked prefill takes prompts in order, up to a token budget a step. So each first token marks the end of
a step, the step-time model says how long that step and the full ones before it took, and a step cannot begin before
the one before it has ended. Nothing is simulated: the instants are those that were seen, the model only divides the
time between them.

Most prompts are alone and whole in their step: those are columns. Where prompts share a step, or one fills several,
steps are laid one by one (`sharedsteps.py`).
"""

from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.diagnosis.modelsteps import decode_steps, whole_prompt_steps
from plimsoll.diagnosis.sharedsteps import Groups, Prompts, SharedSteps
from plimsoll.diagnosis.visits import Floats, Ints
from plimsoll.engine.profile import EngineProfile

SAME_STEP: Final = 2e-3
"""First tokens that come within so many s of each other are of one step: they are sent one after the other."""


class Steps(Struct, frozen=True):
    """Steps with prompts in them in order of time, and of each the shares of its prompts.

    `began_at` and `own` are of the prompts as they were given: the start of its first step, and s that its steps would
    have taken without other prompts.
    """

    ended_at: Floats
    took: Floats
    full: NDArray[np.bool_]  # no prompt more could have gone into it
    share_at: Floats  # end of the step
    extra: Floats  # s by which this prompt made it longer
    busy: Floats  # s of it, by tokens
    tenant: Ints
    began_at: Floats
    own: Floats


def prefill_steps(profile: EngineProfile, prompts: Prompts) -> Steps:
    """The steps of one replica; `prompts` in order of their first tokens."""
    groups, order = _groups(prompts)
    alone = _as_if_alone(profile, groups)
    shared = SharedSteps(profile, groups)
    is_shared = (groups.sizes > 1) | (alone.tokens > groups.room(profile)) | alone.fills_next(groups, profile)
    for number in np.flatnonzero(is_shared).tolist():
        following = number
        while shared.lay(following):  # it took up tokens of the next one, whose own steps are then fewer
            following += 1
            is_shared[following] = True
    found = _merged(profile, groups, alone, shared, np.flatnonzero(~is_shared))
    given = np.empty(order.size, np.int64)
    given[order] = np.arange(order.size)
    return msgspec.structs.replace(found, began_at=found.began_at[given], own=found.own[given])


def _groups(prompts: Prompts) -> tuple[Groups, Ints]:
    """Prompts whose first tokens came together, by dispatch; and where each of these was before."""
    starts = np.flatnonzero(np.diff(prompts.first_at, prepend=-np.inf) > SAME_STEP)
    sizes = np.diff(np.append(starts, prompts.first_at.size))
    order = np.lexsort((prompts.dispatched_at, np.repeat(np.arange(starts.size), sizes)))
    ended_at = prompts.first_at[starts]
    before = np.concatenate(([-np.inf], ended_at[:-1]))
    batch = (prompts.num_seqs[starts], prompts.context[starts], prompts.pace[starts])
    return Groups(prompts.take(order), starts, sizes, ended_at, before, *batch), order


class _Alone(Struct, frozen=True):
    """Each group's first prompt, were it alone and whole in one step."""

    tokens: Ints
    dispatched_at: Floats
    took: Floats  # s of the step
    without: Floats  # s of it without the prompt

    def fills_next(self, groups: Groups, profile: EngineProfile) -> NDArray[np.bool_]:
        """Whether there was room for some of the next prompt, which was there already and too long for it."""
        left = groups.room(profile) - self.tokens
        fills = np.zeros(left.size, bool)
        waits = self.dispatched_at[1:] < (groups.ended_at - self.took)[:-1]
        fills[:-1] = (left[:-1] > 0) & (left[:-1] < self.tokens[1:]) & waits
        return fills


def _as_if_alone(profile: EngineProfile, groups: Groups) -> _Alone:
    first = groups.prompts.take(groups.starts)
    took = groups.pace * whole_prompt_steps(profile, first.tokens, first.cached, groups.num_seqs, groups.context)
    without = groups.pace * decode_steps(profile, groups.num_seqs, groups.context)
    return _Alone(first.tokens, first.dispatched_at, took, without)


def _merged(profile: EngineProfile, groups: Groups, alone: _Alone, shared: SharedSteps, single: Ints) -> Steps:
    """Steps of prompts that are alone, and those that were laid one by one, in order of time."""
    ended_at, rows = groups.ended_at[single], groups.starts[single]
    took = np.minimum(alone.took[single], ended_at - groups.before[single])  # the model may err, the clock may not
    full = alone.tokens[single] + groups.num_seqs[single] >= profile.max_batched_tokens
    began_at, own = shared.began_at, shared.own
    began_at[rows], own[rows] = ended_at - took, took
    extra = took - np.minimum(alone.without[single], took)
    more_ends, more_took, more_full = shared.steps()
    ends, lasted = np.concatenate((ended_at, more_ends)), np.concatenate((took, more_took))
    order = np.lexsort((lasted, ends))
    share_at, more_extra, more_busy, more_tenants = shared.shares()
    return Steps(
        ended_at=ends[order],
        took=lasted[order],
        full=np.concatenate((full, more_full))[order],
        share_at=np.concatenate((ended_at, share_at)),
        extra=np.concatenate((extra, more_extra)),
        busy=np.concatenate((took, more_busy)),
        tenant=np.concatenate((groups.prompts.tenant[rows], more_tenants)),
        began_at=began_at,
        own=own,
    )
