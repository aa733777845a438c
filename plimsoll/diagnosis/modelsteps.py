"""The step-time model asked for many steps at once."""

import numpy as np

from plimsoll.diagnosis.visits import Floats, Ints
from plimsoll.engine.profile import EngineProfile
from plimsoll.engine.steptime import StepTime


def decode_steps(profile: EngineProfile, num_seqs: Ints, context: Ints) -> Floats:
    """Seconds of steps without prompts; 0.0 where nobody decodes.

    A formula is a straight line in the KV tokens for each number of sequences; timing tables are asked step by step.
    """
    times = StepTime(profile)
    if profile.tables is not None and profile.tables.decode is not None:
        pairs = zip(num_seqs.tolist(), context.tolist(), strict=True)
        return np.array([times.decode(seqs, tokens) if seqs > 0 else 0.0 for seqs, tokens in pairs])
    counts = range(1, int(num_seqs.max(initial=0)) + 1)
    base = np.array([0.0, *(times.decode(seqs, 0) for seqs in counts)])
    slope = np.array([0.0, *(times.growth(seqs) / seqs for seqs in counts)])
    seconds: Floats = base[num_seqs] + slope[num_seqs] * context
    return seconds


def whole_prompt_steps(profile: EngineProfile, tokens: Ints, cached: Ints, num_seqs: Ints, context: Ints) -> Floats:
    """Seconds of steps in each of which one prompt is computed whole, `cached` tokens of it being there already."""
    mixed = StepTime(profile).mixed
    work = tokens * (cached + tokens / 2)
    columns = (tokens, num_seqs, context, work, cached.astype(np.float64))
    return np.array([
        mixed(new, 1, seqs, held, done, history)
        for new, seqs, held, done, history in zip(*(column.tolist() for column in columns), strict=True)
    ])  # fmt: skip
