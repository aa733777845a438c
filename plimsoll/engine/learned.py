"""A predictor learnt from a pool's own log: trees of decisions that say how far off the step-time model will be.

It is a file beside an engine profile (JSON) and corrects the predictions that are made with that profile. Only who
grows it needs LightGBM; here it is numbers.
"""

from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.engine.profile import EngineProfile
from plimsoll.errors import ProfileError

VERSION: Final = 1
FEATURES: Final = (
    "predicted_ttft",  # s, by the step-time model
    "own_tokens",  # of the prompt, to be computed
    "pending_tokens",  # of other prompts, sent there and not computed yet
    "running",  # requests that we have there
    "context_tokens",  # of those, prompt and expected output
    "cached_tokens",  # of the prompt, that should be held there
    "slowness",  # log of what came ÷ what was predicted there, lately
    "reported_running",  # its last report; -1 where it does not tell
    "reported_waiting",
    "reported_kv_ratio",
    "report_age",  # s
)
"""What is known at dispatch, in this order; all of it can be read off a log afterwards."""
MOST_TREES: Final = 200  # a decision looks at each on every replica
MOST_LEAVES: Final = 32
LARGEST_LEAF: Final = 10.0  # e^10: nobody is off by 22,000
MOST_OFF: Final = 3.0
"""Log of actual ÷ predicted that is believed, either way (a factor of 20): beyond it nothing has been seen often."""


class Trees(Struct, frozen=True, forbid_unknown_fields=True):
    """Inner nodes: value of `features` ≤ `thresholds` goes to `lefts`, else `rights`; a negative index i is leaf ~i."""

    roots: tuple[int, ...]
    features: tuple[int, ...]
    thresholds: tuple[float, ...]
    lefts: tuple[int, ...]
    rights: tuple[int, ...]
    leaves: tuple[float, ...]  # summed over all trees: log of actual ÷ predicted


class HeldOut(Struct, frozen=True, forbid_unknown_fields=True):
    """How one predictor did on requests that came after what it was made from. Errors: |predicted − came| ÷ came."""

    median_error: float
    p90_error: float
    signed_error: float  # mean of predicted ÷ came − 1
    pinball_p50: float  # s, mean
    pinball_p90: float


class LearnedModel(Struct, frozen=True, forbid_unknown_fields=True):
    """Log of TTFT ÷ the step-time model's prediction: its median and its 90 % quantile."""

    plimsoll_predictor: int  # version of the form
    profile: str  # by which it was predicted
    source: str  # the log, the pool, how many requests of which time
    features: tuple[str, ...]
    p50: Trees
    p90: Trees
    learned: HeldOut
    step_model: HeldOut


class LearnedProfile(EngineProfile, frozen=True, kw_only=True):
    """A profile with what a log taught of the predictions that are made by it. The engine itself is the same."""

    learned: LearnedModel


def with_model(profile: EngineProfile, model: LearnedModel, source: str) -> LearnedProfile:
    """Both together. Raises ProfileError where the model corrects another profile's predictions."""
    if model.profile != profile.name:
        raise ProfileError(f"{source}: made for predictions by profile {model.profile!r}, not {profile.name!r}")
    return LearnedProfile(**msgspec.structs.asdict(profile), learned=model)


def parse(data: bytes, source: str) -> LearnedModel:
    """From a file's bytes; `source` names it in errors. Raises ProfileError, which tells all that is wrong."""
    try:
        model = msgspec.json.decode(data, type=LearnedModel)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{source}: no predictor: {error}") from error
    faults = faults_of(model)
    if faults:
        raise ProfileError(f"{source}: " + "; ".join(faults))
    return model


def faults_of(model: LearnedModel) -> list[str]:
    """All that would make it answer wrongly or never; each names its place."""
    if model.plimsoll_predictor != VERSION:
        return [f"plimsoll_predictor is {model.plimsoll_predictor}: this release reads {VERSION}"]
    faults = []
    if model.features != FEATURES:
        faults.append(f"features are not those of this release: {', '.join(FEATURES)}")
    return [*faults, *_faults_of("p50", model.p50), *_faults_of("p90", model.p90)]


def _faults_of(at: str, trees: Trees) -> list[str]:
    num = len(trees.features)
    lengths = {name: len(getattr(trees, name)) for name in ("thresholds", "lefts", "rights")}
    faults = [
        f"{at}.{name} holds {length} values, {at}.features {num}" for name, length in lengths.items() if length != num
    ]
    if len(trees.roots) > MOST_TREES:
        faults.append(f"{at}.roots: {len(trees.roots)} trees, at most {MOST_TREES}, or a decision would take too long")
    if len(trees.leaves) > MOST_LEAVES * max(1, len(trees.roots)):
        faults.append(f"{at}.leaves: {len(trees.leaves)}, at most {MOST_LEAVES} a tree")
    faults += [
        f"{at}.features[{i}] is {each}: there are {len(FEATURES)}"
        for i, each in enumerate(trees.features)
        if not 0 <= each < len(FEATURES)
    ]
    faults += [
        f"{at}.leaves[{i}] is {value}: must be within ±{LARGEST_LEAF:g}"
        for i, value in enumerate(trees.leaves)
        if not abs(value) <= LARGEST_LEAF
    ]
    return faults or _loose(at, trees)


def _loose(at: str, trees: Trees) -> list[str]:
    """Children that are not there, or do not come after their node: a walk down could go round for ever."""
    num, leaves = len(trees.features), len(trees.leaves)
    faults = [
        f"{at}.roots[{i}] is {root}: there is no such node"
        for i, root in enumerate(trees.roots)
        if not -leaves <= root < num
    ]
    for name in ("lefts", "rights"):
        for i, child in enumerate(getattr(trees, name)):
            if not -leaves <= child < num or 0 <= child <= i:
                faults.append(f"{at}.{name}[{i}] is {child}: must be a later node or a leaf")
    return faults
