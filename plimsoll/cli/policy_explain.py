"""`plimsoll policy explain`: the path that a request would take now, and why."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter, Token

from plimsoll.cli.admintoken import read_token
from plimsoll.cli.logwindow import data_directory
from plimsoll.cli.options import Json
from plimsoll.cli.output import print_json, terminal
from plimsoll.console.feed import Feed
from plimsoll.errors import UsageError
from plimsoll.gateway.openai import BadBody, read_body
from plimsoll.gateway.prompts import TokenRatio
from plimsoll.governor.events import (
    CapabilitiesReported,
    Criticality,
    Endpoint,
    ReplicaReport,
    ReplicasReported,
    RequestArrived,
)
from plimsoll.governor.governor import Governor
from plimsoll.governor.pathway import Path as RequestPath
from plimsoll.governor.pathway import path as path_of
from plimsoll.governor.restoring import restore
from plimsoll.governor.snapshot import Snapshot
from plimsoll.policy import document
from plimsoll.policy.policy import Policy

PROMPT = 1024
"""Prompt tokens where neither request nor option says how many."""


def _file_or_dash(_: Any, tokens: Sequence[Token]) -> str:
    text = tokens[0].value
    if text.startswith("-") and text != "-":
        raise UsageError(f"unknown option: {text}")
    return text


RequestFile = Annotated[str, Parameter(allow_leading_hyphen=True, converter=_file_or_dash)]
"""A file, or `-`: the parser would take that for an option, and so must let whatever looks like one pass."""


def explain(
    policy: Path,
    request: RequestFile = "",
    /,
    *,
    tenant: str = "",
    model: str = "",
    prompt_tokens: int | None = None,
    max_tokens: int | None = None,
    tier: str = "",
    cause: str = "",
    criticality: Criticality = Criticality.CRITICAL,
    log: Path | None = None,
    admin: str = "",
    token: Annotated[Path | None, Parameter(help="File with the admin token, as `plimsoll serve` wrote it.")] = None,
    json_output: Json = False,
) -> None:
    """Print the path that a request would take now, and why: limits, pool, reservation, queue, replicas.

    Without --admin the service is empty and every replica is up; with it the state is that of a running gateway.
    Nothing is sent to any engine, and the gateway is only asked for its snapshot.

    Parameters
    ----------
    policy
        The policy file; with --admin the one that the gateway runs.
    request
        The request's JSON body as a client would send it (chat, completions, responses): a file, or `-` for
        standard input. Options stand for what it does not say, and go before what it does.
    tenant
        Who sends it; needed where the policy names several.
    model
        What it asks for; needed where the policy serves several.
    prompt_tokens
        Length of its prompt; without a body 1,024.
    max_tokens
        Its `max_tokens`; 0 for none.
    tier
        The tier that it asks for by header, if another than its tenant's own.
    cause
        Its `X-Plimsoll-Cause`.
    criticality
        Its `X-Plimsoll-Criticality`.
    log
        A data directory: an empty service knows what `plimsoll capability` tells of it.
    admin
        Base URL of a running gateway's admin port, e.g. http://127.0.0.1:8001.
    json_output
        Print one JSON object.
    """
    promised = document.load(policy)
    snapshot = asyncio.run(_snapshot(admin, read_token(token), promised)) if admin else None
    at = time.time() if snapshot is None else snapshot.at
    arrived = _arrived(at, promised, request, tenant=tenant, model=model, prompt_tokens=prompt_tokens,
                       max_tokens=max_tokens)  # fmt: skip
    arrived = msgspec.structs.replace(arrived, tier=tier, cause=cause, criticality=criticality)
    path = path_in(promised, arrived, snapshot, _capabilities(log, admin, promised, at))
    if json_output:
        return print_json(path)
    return _show(path, live=snapshot is not None)


def path_in(
    policy: Policy, arrived: RequestArrived, snapshot: Snapshot | None, shown: CapabilitiesReported | None = None
) -> RequestPath:
    """The path under that policy: in the state of a snapshot, or in an empty service whose replicas are all up.

    `shown` is what the latter was told of replicas and models; None: nothing.
    """
    from plimsoll.engine import profiles  # noqa: PLC0415 - only where it is needed

    governor = Governor(policy, profiles.of_policy(policy))
    if snapshot is not None:
        restore(governor, snapshot, arrived)
    else:
        names = dict.fromkeys(name for pool in policy.pools for name in pool.replicas)
        reports = [ReplicaReport(name, healthy=True, reported_at=arrived.at) for name in names]
        governor.handle(ReplicasReported(arrived.at, tuple(reports)))
        if shown is not None:
            governor.handle(shown)
    return path_of(governor, arrived)


def _capabilities(log: Path | None, admin: str, policy: Policy, at: float) -> CapabilitiesReported | None:
    """What that log would have the governor told."""
    if log is None:
        return None
    if admin:
        raise UsageError("--log is for a service that does not run: a gateway's snapshot tells what it was told")
    from plimsoll.storage.capabilities import measured  # noqa: PLC0415 - DuckDB, only where it is needed
    from plimsoll.storage.capabilityreport import report  # noqa: PLC0415 - as above

    return report(measured(data_directory(log), policy), at)


async def _snapshot(admin: str, token: str, policy: Policy) -> Snapshot:
    if not admin.startswith(("http://", "https://")):
        raise UsageError(f"--admin {admin}: must be a URL like http://127.0.0.1:8001")
    told = await Feed(admin, token).snapshot()
    if told is None:
        raise UsageError(f"{admin} gives no snapshot: is it the admin port of plimsoll serve?")
    try:
        snapshot = msgspec.convert(told, Snapshot)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{admin} tells its state in another way ({error}): is it another version of Plimsoll?"
        ) from error
    if snapshot.policy_version != policy.version:
        sys.stderr.write(
            f"plimsoll: the gateway runs policy {snapshot.policy_version}, this file is {policy.version}: "
            "the answer is by the file\n"
        )
    return snapshot


def _arrived(
    at: float,
    policy: Policy,
    source: str,
    *,
    tenant: str,
    model: str,
    prompt_tokens: int | None,
    max_tokens: int | None,
) -> RequestArrived:
    """The event that the gateway would make of it. Raises UsageError where something is missing or wrong."""
    tenant = _only("tenant", tenant, [each.name for each in policy.tenants])
    prompt = PROMPT if prompt_tokens is None else prompt_tokens
    told = RequestArrived(at, 1, tenant, model, prompt, max_tokens or 0)
    if source:
        told = _from_body(told, _read(source), source)
        told = msgspec.structs.replace(
            told,
            model=model or told.model,
            prompt_tokens=told.prompt_tokens if prompt_tokens is None else prompt_tokens,
            max_output_tokens=told.max_output_tokens if max_tokens is None else max_tokens,
        )
    if told.prompt_tokens < 0 or told.max_output_tokens < 0:
        raise UsageError("--prompt-tokens and --max-tokens must be 0 or more")
    return msgspec.structs.replace(told, model=_only("model", told.model, [pool.model for pool in policy.pools]))


def _from_body(told: RequestArrived, data: bytes, source: str) -> RequestArrived:
    members = _members(data, source)
    endpoint = Endpoint.CHAT if "messages" in members else Endpoint.COMPLETIONS
    if "input" in members:
        endpoint = Endpoint.RESPONSES
    try:
        body = read_body(endpoint, data)
    except BadBody as error:
        raise UsageError(f"{source}: the gateway would answer 400 (bad_request): {error}") from error
    prompt, ratio = body.prompt, TokenRatio()
    return msgspec.structs.replace(
        told,
        model=body.model,
        prompt_tokens=prompt.exact_tokens + (ratio.estimate(prompt.num_bytes) if prompt.num_bytes else 0),
        max_output_tokens=body.max_output_tokens,
        num_choices=body.num_choices,
        prefix_hashes=prompt.hashes,
        prefix_block_tokens=prompt.block_tokens or int(prompt.block_bytes / ratio.bytes_per_token),
        endpoint=endpoint,
        streaming=body.streaming,
    )


def _members(data: bytes, source: str) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise UsageError(f"{source} is no JSON object: {error}") from error


def _read(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the request {source}: {error.strerror}") from error


def _only(what: str, given: str, known: list[str]) -> str:
    """The one given, or the only one there is."""
    names = list(dict.fromkeys(known))
    if given:
        return given
    if len(names) == 1:
        return names[0]
    raise UsageError(f"say which {what}: --{what} {' | '.join(names[:20]) or '(the policy names none)'}")


def _show(path: RequestPath, *, live: bool) -> None:
    from rich.table import Table  # noqa: PLC0415 - tables, only where they are needed

    console = terminal()
    where = f" to {path.replica}" if path.replica else ""
    console.print(f"{path.decision}{where} ({path.reason}): {path.why}", style="bold")
    if path.retry_after:
        console.print(f"the client is told to come back in {path.retry_after:.0f} s")
    console.print("state: as the gateway's snapshot tells" if live else "state: an empty service, every replica up")
    steps = Table("step", "answer", "why", box=None)
    for step in path.steps:
        steps.add_row(step.step, step.answer, step.why)
    console.print(steps)
    if path.replicas:
        table = Table(
            "replica", "may go", "needs", "free", "held tokens", "cost", "predicted TTFT", "why not", box=None
        )
        for each in path.replicas:
            cost = "–" if each.cost is None else f"{each.cost:.4g}"
            ttft = "–" if each.predicted_ttft is None else f"{each.predicted_ttft:.3f} s"
            name = f"{each.replica} ←" if each.replica == path.replica else each.replica
            table.add_row(name, each.right, f"{each.needs} {each.unit}", str(each.free), str(each.held_tokens), cost,
                          ttft, each.why_not)  # fmt: skip
        console.print(table)
