"""Root causes by name, and for each the remedy that fits and how to try it in the simulator."""

from enum import StrEnum
from typing import Final


class CauseKind(StrEnum):
    """Why requests were slow."""

    NEIGHBOUR_LONG_PROMPTS = "neighbour_long_prompts"
    NEIGHBOUR_SURGE = "neighbour_surge"
    OWN_LONGER_PROMPTS = "own_longer_prompts"
    OWN_LONGER_ANSWERS = "own_longer_answers"
    OWN_SURGE = "own_surge"
    OVERLOAD = "overload"
    KV_EXHAUSTION = "kv_exhaustion"
    CACHE_MISSES = "cache_misses"
    SLOW_REPLICA = "slow_replica"
    STALLED_REPLICA = "stalled_replica"
    REPLICA_FAILED = "replica_failed"
    REPLICA_LOST = "replica_lost"
    SLOWER_ENGINES = "slower_engines"
    STALLS = "stalls"
    UPSTREAM = "upstream"
    SLOW_CLIENT = "slow_client"
    NETWORK = "network"
    EXPERT_IMBALANCE = "expert_imbalance"
    ALL_TO_ALL = "all_to_all"
    SPECULATION_COLLAPSE = "speculation_collapse"
    PROMPT_SHAPE = "prompt_shape"
    LINK_CONTENTION = "link_contention"
    ADAPTER_LOADING = "adapter_loading"
    COLD_START = "cold_start"
    CHANGED_ENGINE = "changed_engine"
    PREEMPTION_STORM = "preemption_storm"


REMEDIES: Final[dict[CauseKind, tuple[str, str]]] = {
    CauseKind.NEIGHBOUR_LONG_PROMPTS: (
        "give long prompts a pool of their own (min_prompt_tokens), or the tenant a limit on tokens_per_minute",
        "plimsoll simulate with pools split at 32k, then plimsoll compare",
    ),
    CauseKind.NEIGHBOUR_SURGE: (
        "limit the neighbour (limits.concurrency, tokens_per_minute), or raise the share of the tier that suffers",
        "plimsoll sweep --set tiers.<tier>.share=30%,50%,70%",
    ),
    CauseKind.OWN_LONGER_PROMPTS: (
        "a longer prompt takes longer: agree on a threshold by prompt length, or move the long ones to a long pool",
        "plimsoll simulate with max_prompt_tokens on the pool",
    ),
    CauseKind.OWN_LONGER_ANSWERS: (
        "ask for fewer tokens (max_tokens), or judge by tpot and itl instead of e2e",
        "plimsoll check, with another objective",
    ),
    CauseKind.OWN_SURGE: (
        "the tenant outgrew its share: raise it, or its committed load",
        "plimsoll headroom --tenant <tenant>",
    ),
    CauseKind.OVERLOAD: ("more replicas, or less load: see how much is safe", "plimsoll headroom"),
    CauseKind.KV_EXHAUSTION: (
        "reserve KV per request (scheduling.reserve_kv, no oversubscription), or give the pool more KV memory",
        "plimsoll simulate with scheduling: {oversubscription: 0%}",
    ),
    CauseKind.CACHE_MISSES: (
        "find what changed at the beginning of the prompts (a time or id in the system prompt), or route by prefix",
        "plimsoll simulate with the workload's shared_tokens as before and as now",
    ),
    CauseKind.SLOW_REPLICA: (
        "take the replica out and look at its clocks, throttling and neighbours on the host",
        "plimsoll simulate with one replica less",
    ),
    CauseKind.STALLED_REPLICA: (
        "take the replica out; look for a paused process, a full disk, a long garbage collection",
        "plimsoll simulate with one replica less",
    ),
    CauseKind.REPLICA_FAILED: ("take the replica out; its log says why", "plimsoll simulate with one replica less"),
    CauseKind.REPLICA_LOST: ("bring the replica back, or shed load until it is", "plimsoll headroom, one replica less"),
    CauseKind.SLOWER_ENGINES: (
        "compare the engines' versions, precision and flags with those of before the change",
        "plimsoll calibrate on both times, then plimsoll compare",
    ),
    CauseKind.STALLS: ("look at the hosts: pauses, swapping, drivers", "no simulation tells"),
    CauseKind.UPSTREAM: ("the steps before the model are slow: it is theirs", "no simulation of ours tells"),
    CauseKind.SLOW_CLIENT: ("the client reads too slowly: it is theirs", "no simulation of ours tells"),
    CauseKind.NETWORK: (
        "look at the way between gateway and engine, at the engine's front end, and at cold starts",
        "no simulation tells",
    ),
    CauseKind.EXPERT_IMBALANCE: (
        "place experts anew by their present load, or copy the busy ones (EPLB)",
        "plimsoll simulate with the profile's moe.skew as before and as now, or router: wait_aware",
    ),
    CauseKind.ALL_TO_ALL: (
        "look at the links between experts' ranks (other jobs on them, a link that came up slower), or keep experts "
        "within one NVLink domain",
        "plimsoll simulate with moe.topology: inside, and with the across rate measured now",
    ),
    CauseKind.SPECULATION_COLLAPSE: (
        "switch speculation off above fewer sequences, or train or choose the draft for the present traffic",
        "plimsoll simulate with speculation.acceptance as now, and without speculation",
    ),
    CauseKind.PROMPT_SHAPE: (
        "these prompts are of another kind than the engine is tuned for: a pool of their own, with other drafts",
        "plimsoll simulate with the tenant's own row in speculation.acceptance",
    ),
    CauseKind.LINK_CONTENTION: (
        "find who else uses the PCIe or NVLink path (a copy, another engine), or bring less KV up: more of it in HBM",
        "plimsoll simulate with kv_tiers.tiers[].read_bandwidth as now",
    ),
    CauseKind.ADAPTER_LOADING: (
        "give replicas more adapter slots, or route each adapter to few replicas",
        "plimsoll simulate with lora.slots as many as there are adapters",
    ),
    CauseKind.COLD_START: (
        "send nothing to a replica before its model is loaded, keep one warm, or load faster",
        "plimsoll simulate with cold_start.seconds: 0",
    ),
    CauseKind.CHANGED_ENGINE: (
        "compare the new build's precision, quantisation and flags with those of before, or go back",
        "plimsoll calibrate on both times; then plimsoll simulate with precision as found",
    ),
    CauseKind.PREEMPTION_STORM: (
        "admit less at once: reserve_kv, no oversubscription, a lower max_num_seqs, or more KV memory",
        "plimsoll simulate with scheduling: {reserve_kv: true, oversubscription: 0%}",
    ),
}
"""Cause → (remedy, how to try it)."""
