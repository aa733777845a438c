"""`plimsoll check`: is this policy good, and what does it promise?"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from plimsoll.cli.options import Json
from plimsoll.cli.output import Terminal
from plimsoll.engine import profiles
from plimsoll.errors import Fault, ProfileError
from plimsoll.policy.document import Examination, examine, read
from plimsoll.policy.objective import Objective, Origin, Sli
from plimsoll.policy.plugins import OnError, Plugin
from plimsoll.policy.policy import Limits, Policy, Pool, Tier
from plimsoll.units import format_count, format_duration, format_ratio, format_tokens


def check(
    policy: Path,
    *,
    json_output: Json = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Read a policy, tell everything that is wrong with it at once, and show what it promises when it is good.

    Exits with 0 when it is good, 1 when it has faults (or warnings, with --strict), 2 when it cannot be read.

    Parameters
    ----------
    policy
        The policy file (YAML); examples/policy.yaml is one to start from, docs/policy.md explains every key.
    json_output
        Print one JSON object with faults, warnings and what was promised.
    strict
        Treat warnings as faults.
    """
    examination = examine(read(policy), _wrong_with_profile)
    if json_output:
        print(json.dumps(_as_data(policy, examination), indent=2))  # noqa: T201 - the command's output
    else:
        _show(policy, examination)
    if examination.faults or (strict and examination.warnings):
        sys.exit(1)


def _wrong_with_profile(name: str, overrides: str, predictor: str) -> str:
    try:
        profiles.load(name, overrides, predictor)
    except ProfileError as error:
        return str(error)
    return ""


def _show(source: Path, examination: Examination) -> None:
    console = Terminal(highlight=False, soft_wrap=True)
    for fault in examination.faults:
        console.print(f"[red]fault[/]    {escape(str(fault))}")
    for fault in examination.warnings:
        console.print(f"[yellow]warning[/]  {escape(str(fault))}")
    if examination.policy is None:
        num = len(examination.faults)
        console.print(f"[bold]{escape(str(source))}: {num} fault{'s' * (num != 1)}[/]")
        return
    console.print(f"[bold green]{escape(str(source))}: good[/] (version {examination.policy.version})")
    for line in promises(examination.policy):
        console.print(escape(line))


def promises(policy: Policy) -> list[str]:
    """What was promised, to whom, and with what, in lines for people."""
    service = policy.service
    lines = [f"budgets by {service.period} in {service.timezone}, {format_ratio(service.shared_pool)} of each shared"]
    for tier in sorted(policy.tiers, key=lambda tier: tier.rank):
        members = sum(tenant.tier == tier.name for tenant in policy.tenants)
        lines.append(f"tier {tier.name}: rank {tier.rank}, floor {format_ratio(tier.share)}, {_num(members, 'tenant')}")
        lines += [f"    {promise(objective)}" for objective in tier.promised]
    lines += [_plugin_line(plugin) for plugin in policy.plugins]
    lines += [_pool_line(pool) for pool in policy.pools]
    for tenant in policy.tenants:
        told = _limits(tenant.limits)
        lines.append(
            f"tenant {tenant.name} ({tenant.tier}): {_num(len(tenant.keys), 'key')}, {', '.join(told) or 'no limits'}"
        )
    return lines


def _limits(limits: Limits) -> list[str]:
    told = []
    for name in ("concurrency", "requests_per_minute", "tokens_per_minute", "queue"):
        limit = getattr(limits, name)
        if limit is not None:
            told.append(f"{name.replace('_', ' ')} {format_count(limit)}")
    if limits.adapt is not None:
        span = f"{format_ratio(limits.adapt.floor)} to {format_ratio(limits.adapt.burst)}"
        told.append(f"adapting from {span} of its tokens")
    return told


def promise(objective: Objective) -> str:
    """One objective in words: "ttft: 99.5% of requests within 800ms (contract 99%)"."""
    what = "answered" if objective.sli is Sli.AVAILABILITY else f"within {format_duration(objective.below)}"
    since = ", counted from the user" if objective.origin is Origin.USER else ""
    contract = f" (contract {format_ratio(objective.contract)})" if objective.contract is not None else ""
    return f"{objective.name}: {format_ratio(objective.target)} of {objective.unit} {what}{since}{contract}"


def _plugin_line(plugin: Plugin) -> str:
    core = "" if plugin.core else ", left out under load"
    failing = "refuses" if plugin.on_error is OnError.REFUSE else "lets pass"
    return f"plugin {plugin.name}: {plugin.kind}, within {format_duration(plugin.timeout)}, else {failing}{core}"


def _pool_line(pool: Pool) -> str:
    least, most = pool.min_prompt_tokens, pool.max_prompt_tokens
    span = "any prompt"
    if most is not None:
        span = f"prompts of {format_tokens(least)} to below {format_tokens(most)} tokens"
    elif least:
        span = f"prompts of {format_tokens(least)} tokens and more"
    sla_class = f", class {pool.sla_class}" if pool.sla_class else ""
    return (
        f"pool {pool.name}: {pool.model} on {_num(len(pool.replicas), 'replica')} of {pool.engine}, {span}{sla_class}"
    )


def _num(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _as_data(source: Path, examination: Examination) -> dict[str, Any]:
    policy = examination.policy
    return {
        "source": str(source),
        "good": policy is not None,
        "version": policy.version if policy else None,
        "faults": [_fault_data(fault) for fault in examination.faults],
        "warnings": [_fault_data(fault) for fault in examination.warnings],
        "tiers": [_tier_data(tier) for tier in policy.tiers] if policy else [],
        "tenants": [{"name": tenant.name, "tier": tenant.tier} for tenant in policy.tenants] if policy else [],
        "pools": [{"name": pool.name, "model": pool.model, "replicas": pool.replicas} for pool in policy.pools]
        if policy
        else [],
    }


def _fault_data(fault: Fault) -> dict[str, Any]:
    return {"path": fault.path, "line": fault.line, "message": fault.message, "hint": fault.hint}


def _tier_data(tier: Tier) -> dict[str, Any]:
    objectives = [
        {
            "name": objective.name,
            "sli": objective.sli.value,
            "below": None if objective.sli is Sli.AVAILABILITY else objective.below,
            "target": float(objective.target),
            "contract": None if objective.contract is None else float(objective.contract),
            "from": objective.origin.value,
        }
        for objective in tier.promised
    ]
    return {"name": tier.name, "rank": tier.rank, "share": float(tier.share), "objectives": objectives}
