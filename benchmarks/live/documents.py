"""Each rival as a policy document, the same file for `plimsoll serve` and `plimsoll simulate`."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from benchmarks.live.stage import Stage, tenants
from benchmarks.studies.arms import Arm
from benchmarks.studies.service import SHARES
from plimsoll.policy.document import parse
from plimsoll.policy.policy import Policy, Scheduling
from plimsoll.policy.yamltext import compact

OBJECTIVES: Final = {"gold": (1.0, "150ms", "99%"), "silver": (3.0, "200ms", "98%"), "bronze": (15.0, "300ms", "95%")}
"""By tier: TTFT as a multiple of gold's, TPOT, target; as in `benchmarks/studies/service.py`."""


def key_of(tenant: str) -> str:
    """A tenant's key, which is no secret."""
    return f"sk-live-{tenant}"


def promises(stage: Stage, urls: Sequence[str]) -> dict[str, Any]:
    """The policy that all rivals share, as plain values."""
    tiers = []
    for rank, (name, share) in enumerate(SHARES.items()):
        factor, tpot, target = OBJECTIVES[name]
        ttft = {"sli": "ttft", "below": f"{factor * stage.gold_ttft:g}s", "target": target}
        objectives = [ttft, {"sli": "tpot", "below": tpot, "target": target}]
        tiers.append({"name": name, "rank": rank, "share": f"{share:.0%}", "objectives": objectives})
    tiers[-1]["trickle"] = "5%"
    pool = {"name": "chat", "model": stage.model, "engine": stage.engine, "profile": stage.profile}
    return {
        "plimsoll": 1,
        "tiers": tiers,
        "tenants": [
            {"name": name, "tier": tier, "keys": ["sha256:" + sha256(key_of(name).encode()).hexdigest()]}
            for name, tier in tenants().items()
        ],
        "pools": [{**pool, "replicas": list(urls)}],
    }


def document(stage: Stage, arm: Arm, urls: Sequence[str]) -> str:
    """The policy file of a rival at its published setting. Raises ValueError where the file would say less than it."""
    base = promises(stage, urls)
    policy = arm.put(parse(compact(base), arm.name), setting_of(arm, stage))
    text = compact(_changed(base, policy))
    read = parse(text, arm.name)
    if replace(read, version=policy.version) != policy:
        raise ValueError(f"{arm.name}: its policy file does not say what it is")
    return text


def setting_of(arm: Arm, stage: Stage) -> float:
    """The published one; caps of requests a replica as the stage scales them, and no more than the engine holds."""
    published = arm.settings[0]
    if not arm.tells.startswith("requests"):
        return published
    return min(round(published * stage.slots), stage.loaded().max_num_seqs)


def _changed(base: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """The plain values with all that a rival changes."""
    changed = dict(base)
    changed["tiers"] = [
        {**plain, "share": float(tier.share), "trickle": float(tier.trickle)}
        | ({} if tier.wait is None else {"wait": f"{tier.wait:g}s"})
        for plain, tier in zip(base["tiers"], policy.tiers, strict=True)
    ]
    (plain,), (pool,) = base["pools"], policy.pools
    changed["pools"] = [{**plain, "max_concurrency": pool.max_concurrency} if pool.max_concurrency else plain]
    if rules := _differing(policy.scheduling):
        changed["scheduling"] = rules
    changed["gateway"] = {"probe_every": f"{policy.gateway.probe_every:g}s"}
    return changed


def _differing(rules: Scheduling) -> dict[str, Any]:
    """What is not as by default; rules that cannot be said plainly make `document` raise."""
    usual = Scheduling()
    found = {}
    for key in ("order", "routing", "tiers_matter", "reserve_kv", "oversubscription", "saturation", "saturation_limit",
                "late"):  # fmt: skip
        value = getattr(rules, key)
        if value != getattr(usual, key):
            found[key] = value if isinstance(value, bool) else str(value) if isinstance(value, str) else float(value)
    return found
