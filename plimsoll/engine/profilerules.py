"""What must hold of the numbers of a profile, each by itself and together; every fault names its place and the rule."""

from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from typing import Final

from msgspec import Struct

from plimsoll.engine.profile import EngineProfile, StepCoefficients

POSITIVE: Final = frozenset({
    "block_size", "num_blocks", "max_num_seqs", "max_batched_tokens", "max_context", "host_factor",
    "disaggregation.prefill_replicas", "disaggregation.decode_replicas", "disaggregation.bytes_per_token",
    "disaggregation.bandwidth", "kv_tiers.bytes_per_token", "speculation.draft_tokens", "moe.num_ranks",
    "data_parallel.ranks",
    "moe.experts_per_token", "lora.slots", "precision.factor", "rounds.steps",
})  # fmt: skip
FEATURES: Final = (
    "tables", "precision", "moe", "data_parallel", "cold_start", "lora", "kv_tiers", "speculation", "rounds",
    "disaggregation",
)  # fmt: skip


def faults_of(profile: EngineProfile) -> list[str]:
    """All of them, in the order of the profile."""
    faults = [*_coefficients(profile), *_numbers(profile), *_rules(profile)]
    for name in FEATURES:
        feature = getattr(profile, name)
        if feature is not None:
            faults += _numbers(feature, f"{name}.")
            if not feature.source.strip():
                faults.append(f"{name}.source is empty: say where the numbers come from")
    return [*faults, *_tiers(profile), *_speculation(profile), *_experts(profile), *_tables(profile)]


def _coefficients(profile: EngineProfile) -> Iterator[str]:
    for part in ("decode", "mixed"):
        coefficients: StepCoefficients = getattr(profile, part)
        for field in StepCoefficients.__struct_fields__:
            value = getattr(coefficients, field)
            if not isfinite(value) or (value < 0 and field != "c"):  # c is an intercept of the second line
                yield f"{part}.{field} is {value}: must be finite and not negative"


def _numbers(values: Struct, at: str = "") -> Iterator[str]:
    """Faults of single numbers: what must be finite and not negative, what must be positive."""
    for field in values.__struct_fields__:
        value = getattr(values, field)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if f"{at}{field}" in POSITIVE:
            if not (isfinite(value) and value > 0):
                yield f"{at}{field} is {value}: must be positive"
        elif not (isfinite(value) and value >= 0):
            yield f"{at}{field} is {value}: must be finite and not negative"


def _rules(profile: EngineProfile) -> Iterator[str]:
    """Faults between numbers."""
    if profile.max_num_seqs > profile.max_batched_tokens:
        yield "max_num_seqs exceeds max_batched_tokens: a step could not hold one token a sequence"
    decode, mixed = profile.decode, profile.mixed
    if max(decode.a, decode.c) + decode.d <= 0 or max(mixed.a, mixed.c) + mixed.d + mixed.e + mixed.b <= 0:
        yield "a step takes no time: give decode and mixed a positive constant"
    if profile.rounds is not None and profile.disaggregation is not None:
        yield "rounds and disaggregation: give one of them; a decode engine of a pair admits at every step"


def _tiers(profile: EngineProfile) -> Iterator[str]:
    tiers = profile.kv_tiers
    if tiers is None:
        return
    if not profile.prefix_caching:
        yield "kv_tiers need prefix_caching: true, or nothing could ever be found in them"
    if not tiers.tiers:
        yield "kv_tiers.tiers is empty: name at least one"
    if not 0 < tiers.protected_ratio < 1:
        yield f"kv_tiers.protected_ratio is {tiers.protected_ratio}: must lie between 0 and 1"
    if tiers.prewarm_every and len(tiers.tiers) < 2:
        yield "kv_tiers.prewarm_every needs two tiers: one to move from and one to move to"
    for index, tier in enumerate(tiers.tiers):
        place = f"kv_tiers.tiers[{index}]."
        for field in ("capacity", "read_bandwidth", "write_bandwidth"):
            value = getattr(tier, field)
            if not (isfinite(value) and value > 0):
                yield f"{place}{field} is {value}: must be positive"
        if not (isfinite(tier.latency) and tier.latency >= 0):
            yield f"{place}latency is {tier.latency}: must be finite and not negative"


def _speculation(profile: EngineProfile) -> Iterator[str]:
    speculation = profile.speculation
    if speculation is None:
        return
    if "default" not in speculation.acceptance:
        yield "speculation.acceptance has no default: give one for classes that are not named"
    for name, chances in speculation.acceptance.items():
        if len(chances) < speculation.draft_tokens:
            yield f"speculation.acceptance.{name} tells {len(chances)} positions of {speculation.draft_tokens}"
        if any(not 0 <= chance <= 1 for chance in chances):
            yield f"speculation.acceptance.{name}: chances lie between 0 and 1 (0.58, not 58)"
        if any(later > earlier for earlier, later in pairwise(chances)):
            yield f"speculation.acceptance.{name} grows: a position is kept only where those before it are"
    most = min(profile.max_num_seqs, speculation.off_above + 1)
    if (speculation.draft_tokens + 1) * most > profile.max_batched_tokens:
        yield f"speculation: {most} sequences · (draft_tokens + 1) exceed max_batched_tokens; lower off_above"


def _experts(profile: EngineProfile) -> Iterator[str]:
    moe = profile.moe
    if moe is None:
        return
    if not 0 <= moe.expert_share <= 1:
        yield f"moe.expert_share is {moe.expert_share}: must lie between 0 and 1"
    if any(later <= earlier for (earlier, _), (later, _) in pairwise(moe.skew)):
        yield "moe.skew: tokens must grow"
    if any(not (isfinite(factor) and factor > 0) for _, factor in moe.skew):
        yield "moe.skew: factors must be positive"
    for name in ("inside", "across"):
        yield from _numbers(getattr(moe, name), f"moe.{name}.")


def _tables(profile: EngineProfile) -> Iterator[str]:
    tables = profile.tables
    if tables is None:
        return
    if tables.decode is None and tables.mixed is None:
        yield "tables: give decode, mixed or both"
    if tables.decode is not None:
        grid = tables.decode
        yield from _axis("tables.decode.num_seqs", grid.num_seqs)
        yield from _axis("tables.decode.context", grid.context)
        if len(grid.seconds) != len(grid.num_seqs) or any(len(row) != len(grid.context) for row in grid.seconds):
            yield f"tables.decode.seconds: {len(grid.num_seqs)} rows of {len(grid.context)} are needed"
        for number, row in enumerate(grid.seconds):
            if any(not (isfinite(value) and value > 0) for value in row):
                yield f"tables.decode.seconds[{number}]: every step takes time"
            if any(later < earlier for earlier, later in pairwise(row)):
                yield f"tables.decode.seconds[{number}] falls: more context cannot be faster"
    if tables.mixed is not None:
        line = tables.mixed
        yield from _axis("tables.mixed.tokens", line.tokens)
        if len(line.seconds) != len(line.tokens):
            yield f"tables.mixed.seconds: {len(line.tokens)} are needed"
        if any(not (isfinite(value) and value > 0) for value in line.seconds):
            yield "tables.mixed.seconds: every step takes time"
        if any(later < earlier for earlier, later in pairwise(line.seconds)):
            yield "tables.mixed.seconds falls: more tokens cannot be faster"


def _axis(name: str, points: tuple[float, ...]) -> Iterator[str]:
    if len(points) < 2 or any(not later > earlier for earlier, later in pairwise(points)):
        yield f"{name}: at least two points that grow"
