"""The service that the studies judge: Llama-70B on H100 (two pairs a replica), eight tenants in three tiers.

Load is counted in service, prompt tokens + 2 × output tokens (`governor/queueing`), as a share of what the replicas
serve when everybody keeps them busy. A tier's share of that is its floor; a tenant's is its tier's, divided evenly.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from plimsoll.engine import profiles
from plimsoll.engine.profile import EngineProfile
from plimsoll.governor.queueing import OUTPUT_WEIGHT
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy
from plimsoll.sim.tenantprofile import Lengths, TenantProfile
from plimsoll.sim.workload import Workload

PROFILE: Final = "h100-llama70b-tp4"
KNOWN: Final[Mapping[str, EngineProfile]] = {PROFILE: profiles.load(PROFILE)}
REPLICAS: Final = 4
TIERS: Final = {"gold": ("gold-1", "gold-2"), "silver": ("silver-1", "silver-2", "silver-3")}
BRONZE: Final = ("bronze-1", "bronze-2", "noisy")
SHARES: Final = {"gold": 0.50, "silver": 0.30, "bronze": 0.15}


class Mix(Struct, frozen=True):
    """Lengths of prompts and outputs as in a trace, and what the replicas serve of them: tokens a second and replica.

    `capacity` is measured (`python -m benchmarks.studies.capacity`): the service that one replica gives where its
    queue never runs empty.
    """

    name: str
    prompt: Lengths
    output: Lengths
    capacity: float
    gold_ttft: float  # s, the objective: a prompt of the 95 % quantile on an idle replica fits four times

    def mean_service(self) -> float:
        """Tokens of service of a request in the mean."""
        return mean_of(self.prompt) + OUTPUT_WEIGHT * mean_of(self.output)


def table(*tokens: int) -> Lengths:
    """Lengths by their 0, 5, 10, 25, 50, 75, 90, 95, 99 and 100 % quantiles."""
    shares = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
    return Lengths(float(tokens[4]), 0.0, tokens[-1], tuple(zip(shares, map(float, tokens), strict=True)))


def mean_of(lengths: Lengths) -> float:
    """Their mean, by the table's lines in the normal quantile, as they are drawn."""
    steps = 2000
    from statistics import NormalDist

    import numpy as np

    normals = [NormalDist().inv_cdf((i + 0.5) / steps) for i in range(steps)]
    return float(np.mean(np.interp(normals, *lengths.knots())))


AZURE: Final = Mix(
    # AzureLLMInferenceTrace_conv of 16 November 2023 (Azure/AzurePublicDataset, CC-BY-4.0), 19,366 requests
    "azure",
    table(2, 181, 207, 396, 1020, 1189, 2734, 4083, 4142, 14_050),
    table(7, 41, 54, 85, 129, 395, 424, 451, 601, 1000),
    capacity=14_200.0,
    gold_ttft=1.0,
)
MOONCAKE: Final = Mix(
    # Mooncake's conversation trace (kvcache-ai/Mooncake, FAST25, Apache-2.0), prompts below 32k; no prefix is shared
    "mooncake",
    table(891, 900, 941, 2045, 6173, 13_118, 20_375, 25_322, 30_738, 32_759),
    table(1, 10, 24, 156, 350, 472, 597, 698, 1118, 2000),
    capacity=11_000.0,
    gold_ttft=4.0,
)
MIXES: Final = {mix.name: mix for mix in (AZURE, MOONCAKE)}
LONG: Final = Lengths(19_000.0, 0.0, 31_744, ((0.0, 8192.0), (0.5, 19_968.0), (1.0, 31_744.0)))
"""Prompts of the neighbour in gold's own pool: 8k to 31k."""
LONGEST: Final = Lengths(65_536.0, 0.0, 122_880, ((0.0, 32_768.0), (0.5, 65_536.0), (1.0, 122_880.0)))
"""… and in the long pool: 32k to 120k, which with its output fits the engine's context."""


def policy(mix: Mix, *, replicas: int = REPLICAS, long_replicas: int = 0) -> Policy:
    """The promises, with all replicas in one pool or some of them carved out for prompts of 32k and more."""
    names = [f'"http://r{number}"' for number in range(replicas)]
    pools = [(names[: replicas - long_replicas], "chat", ", max_prompt_tokens: 32k" if long_replicas else "")]
    if long_replicas:
        pools.append((names[replicas - long_replicas :], "long", ", min_prompt_tokens: 32k"))
    ttft = mix.gold_ttft
    tenants = [(name, tier) for tier, members in TIERS.items() for name in members] + [(n, "bronze") for n in BRONZE]
    return parse(
        f"""
plimsoll: 1
tiers:
  - name: gold
    rank: 0
    share: 50%
    objectives: [{{sli: ttft, below: {ttft}s, target: 99%}}, {{sli: tpot, below: 150ms, target: 99%}}]
  - name: silver
    rank: 1
    share: 30%
    objectives: [{{sli: ttft, below: {3 * ttft}s, target: 98%}}, {{sli: tpot, below: 200ms, target: 98%}}]
  - name: bronze
    rank: 2
    share: 15%
    trickle: 5%
    objectives: [{{sli: ttft, below: {15 * ttft}s, target: 95%}}, {{sli: tpot, below: 300ms, target: 95%}}]
tenants: [{", ".join(f"{{name: {name}, tier: {tier}}}" for name, tier in tenants)}]
pools:
"""
        + "".join(
            f"  - {{name: {name}, model: m, engine: vllm, profile: {PROFILE}{more}, replicas: [{', '.join(urls)}]}}\n"
            for urls, name, more in pools
        ),
        "studies",
    )


def share_of(tenant: str) -> float:
    """A tenant's share of all service: its tier's, divided evenly."""
    for tier, members in TIERS.items():
        if tenant in members:
            return SHARES[tier] / len(members)
    return SHARES["bronze"] / len(BRONZE)


def sender(name: str, mix: Mix, service_share: float, replicas: int = REPLICAS) -> TenantProfile:
    """A tenant that asks for so much of all service, in requests like the mix's."""
    rate = service_share * mix.capacity * replicas / mix.mean_service()
    return TenantProfile(name, rate, prompt=mix.prompt, output=mix.output, max_output=mix.output.most)


def long_sender(name: str, mix: Mix, prompt: Lengths, service_share: float) -> TenantProfile:
    """A tenant that asks for so much of all service with long prompts."""
    service = mean_of(prompt) + OUTPUT_WEIGHT * mean_of(mix.output)
    rate = service_share * mix.capacity * REPLICAS / service
    return TenantProfile(name, rate, prompt=prompt, output=mix.output, max_output=mix.output.most)


def everybody(mix: Mix, load: float, duration: float, bronze: Mix | None = None) -> Workload:
    """All eight tenants, each by its share; together they ask for `load` times what the replicas serve.

    Bronze may have lengths of its own.
    """
    total = sum(SHARES.values())
    senders = [sender(name, mix, load * share_of(name) / total) for name in (*TIERS["gold"], *TIERS["silver"])]
    senders += [sender(name, bronze or mix, load * share_of(name) / total) for name in BRONZE]
    return Workload(tuple(senders), duration, "m")


def with_rules(promises: Policy, **changes: object) -> Policy:
    """The same under changed scheduling rules."""
    return replace(promises, scheduling=replace(promises.scheduling, **changes))
