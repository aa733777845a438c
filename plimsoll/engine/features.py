"""What an engine may do beyond plain continuous batching: each a few numbers with units and their source.

All are absent from a profile unless it says so, and none then costs anything. Times are s, sizes bytes, rates bytes/s.
"""

from enum import StrEnum

from msgspec import Struct


class Disaggregation(Struct, frozen=True, forbid_unknown_fields=True):
    """Prefill and decode on engines of their own; a prompt's KV travels between them, one link per prefill engine."""

    source: str
    prefill_replicas: int
    decode_replicas: int
    bytes_per_token: float  # of KV, all layers
    bandwidth: float
    latency: float = 0.0  # a transfer


class Eviction(StrEnum):
    """How a KV tier chooses what to give up."""

    LRU = "lru"
    SEGMENTED = "segmented"  # what was hit again is kept apart from what came once


class KvTier(Struct, frozen=True, forbid_unknown_fields=True):
    """One store below the GPU's memory."""

    name: str
    capacity: float  # bytes
    read_bandwidth: float
    write_bandwidth: float
    latency: float = 0.0  # a read


class KvTiers(Struct, frozen=True, forbid_unknown_fields=True):
    """KV kept below HBM, fastest tier first; what a tier evicts goes down to the next one."""

    source: str
    bytes_per_token: float
    tiers: tuple[KvTier, ...]
    eviction: Eviction = Eviction.LRU
    protected_ratio: float = 0.8  # of a tier, for what was hit again (segmented)
    prewarm_every: float = 0.0  # s between moves of proven content back up; 0: none


class Speculation(Struct, frozen=True, forbid_unknown_fields=True):
    """Speculative decoding: `draft_tokens` guesses a step, each kept with the chance that its position has."""

    source: str
    draft_tokens: int
    acceptance: dict[str, tuple[float, ...]]  # by request class (tenant), or "default": chance that position i is kept
    draft_time: float  # a guess of the whole batch
    draft_time_per_sequence: float = 0.0  # a guess of one sequence, on top
    off_above: int = 1 << 30  # sequences: with more of them a step guesses nothing


class Router(StrEnum):
    """How tokens choose experts."""

    ARGMAX = "argmax"  # the best ones: popular experts get more
    PROBABILISTIC = "probabilistic"  # drawn by weight: uneven by chance alone
    WAIT_AWARE = "wait_aware"  # the less busy of good ones: even but for rounding


class Topology(StrEnum):
    """What tokens cross on their way to experts."""

    INSIDE = "inside"  # one NVLink domain
    ACROSS = "across"  # the network between them


class AllToAll(Struct, frozen=True, forbid_unknown_fields=True):
    """Dispatch and combine of one layer: base + per_token · tokens of the step."""

    base: float
    per_token: float


class MixtureOfExperts(Struct, frozen=True, forbid_unknown_fields=True):
    """Expert parallelism: the busiest rank decides how long an expert layer takes, and tokens have to travel."""

    source: str
    num_ranks: int
    experts_per_token: int
    expert_share: float  # of the linear part of a step that experts take, 0 to 1
    router: Router = Router.ARGMAX
    skew: tuple[tuple[float, float], ...] = ()  # (tokens in a step, busiest rank ÷ mean) under argmax, by tokens
    num_layers: int = 0
    topology: Topology = Topology.INSIDE
    inside: AllToAll = AllToAll(0.0, 0.0)
    across: AllToAll = AllToAll(0.0, 0.0)


class DataParallel(Struct, frozen=True, forbid_unknown_fields=True):
    """Ranks with sequences and KV of their own that share experts: each step lasts as long as the slowest one's."""

    source: str
    ranks: int


class Lora(Struct, frozen=True, forbid_unknown_fields=True):
    """Adapters (names of a model beside the pool's own) that must be loaded before their requests can run."""

    source: str
    slots: int
    load_time: float


class Precision(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights or KV in another format than the one fitted: a factor on what the GPU does, not on the host's part."""

    source: str
    name: str
    factor: float


class ColdStart(Struct, frozen=True, forbid_unknown_fields=True):
    """A replica that takes time to begin: when it starts, and after it has slept."""

    source: str
    seconds: float
    asleep_after: float = 0.0  # s of idleness after which it goes to sleep; 0: never


class Rounds(Struct, frozen=True, forbid_unknown_fields=True):
    """Decode steps between looks at the queue, as SGLang's --num-continuous-decode-steps."""

    source: str
    steps: int
    early_cut: bool = False  # an arrival ends the round with the step that runs; otherwise it waits for its end
    schedule_time: float = 0.0  # a look at the queue costs so much


class DecodeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of decode steps on a grid, linear in between; in place of the `decode` formula."""

    num_seqs: tuple[float, ...]
    context: tuple[float, ...]  # KV tokens of all
    seconds: tuple[tuple[float, ...], ...]  # a row for each of num_seqs


class LinearTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds by tokens in a step, linear in between; in place of max(a + e·T, b·T + c) in mixed steps."""

    tokens: tuple[float, ...]
    seconds: tuple[float, ...]


class Tables(Struct, frozen=True, forbid_unknown_fields=True):
    """Measured step times instead of fitted ones. Attention, d and f of mixed steps stay with the formula."""

    source: str
    decode: DecodeTable | None = None
    mixed: LinearTable | None = None
