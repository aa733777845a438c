"""What an engine is: step-time coefficients, KV capacity and scheduler settings, with provenance."""

from msgspec import Struct

from plimsoll.engine.features import (
    ColdStart,
    DataParallel,
    Disaggregation,
    KvTiers,
    Lora,
    MixtureOfExperts,
    Precision,
    Rounds,
    Speculation,
    Tables,
)


class StepCoefficients(Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of a step: max(a + e·T, b·T + c) + d + f·B + g·ctx + pw·PW + kp·KP; `steptime.py` tells the symbols."""

    a: float = 0.0
    e: float = 0.0
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    f: float = 0.0
    g: float = 0.0
    pw: float = 0.0
    kp: float = 0.0


class EngineProfile(Struct, frozen=True, forbid_unknown_fields=True):
    """One engine on one kind of machine. Shipped ones are YAML files beside this module (`profiles/`)."""

    name: str
    source: str  # provenance: data set, version, licence
    decode: StepCoefficients  # steps without prefill
    mixed: StepCoefficients  # steps with prefill
    host_factor: float = 1.0  # on the whole step
    host_per_sequence: float = 0.0  # s per running sequence and step
    block_size: int = 16  # tokens
    num_blocks: int = 10_000  # KV blocks of one replica
    max_num_seqs: int = 256
    max_batched_tokens: int = 2048  # token budget of a step
    max_context: int = 131_072
    prefix_caching: bool = True
    fitted_max_tokens: int = 0  # range of the fit: tokens in a step; 0: not said
    fitted_max_context: int = 0  # range of the fit: sum of context tokens
    model: str = ""  # what it serves, as the engine names it
    engine: str = "vllm"  # whose metric names and error texts an emulated replica speaks
    priority_scheduling: bool = False  # vLLM's --scheduling-policy priority; lower numbers go first
    reserve_prompt: bool = True  # admit only where the whole prompt fits, not its first chunk (vLLM >= 0.19)
    engine_version: str = ""  # whose host overhead host_factor and host_per_sequence are
    frontend: float = 0.0  # s of a request outside all steps: HTTP server, tokenizer, ways to the engine and back
    tables: Tables | None = None
    precision: Precision | None = None
    moe: MixtureOfExperts | None = None
    data_parallel: DataParallel | None = None
    cold_start: ColdStart | None = None
    lora: Lora | None = None
    kv_tiers: KvTiers | None = None
    speculation: Speculation | None = None
    rounds: Rounds | None = None
    disaggregation: Disaggregation | None = None

    @property
    def num_engines(self) -> int:
        """How many engines of this kind hold requests behind one endpoint: ranks, or decode engines of a pair."""
        ranks = self.data_parallel.ranks if self.data_parallel else 1
        return ranks * (self.disaggregation.decode_replicas if self.disaggregation else 1)
