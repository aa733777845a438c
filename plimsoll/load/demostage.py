"""What the demo plays: its shipped policy and trace, fitted to the engines and the speed at hand."""

import re
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Final

from plimsoll.load.tenants import Sender
from plimsoll.policy import document
from plimsoll.policy.policy import Policy
from plimsoll.units import parse_duration

NOISY: Final = "barge"
NOISY_FROM: Final = 180.0  # s of the trace
NOISY_TO: Final = 420.0
DURATION: Final = 600.0
_DURATIONS: Final = re.compile(r"\b(below|queue_timeout): ([0-9.]+(?:ms|s))")


class Engine(StrEnum):
    """What stands behind the gateway."""

    EMULATE = "emulate"
    LLAMACPP = "llamacpp"


def trace_path() -> Path:
    """The shipped trace: ten minutes of eight tenants (see the NOTICE beside it)."""
    return Path(str(files("plimsoll.load") / "demo" / "trace.csv.gz"))


def senders(policy: Policy) -> tuple[Sender, ...]:
    """The demo's tenants with their keys, which are no secrets."""
    return tuple(Sender(tenant.name, f"sk-demo-{tenant.name}") for tenant in policy.tenants)


def write_policy(target: Path, replicas: list[str], preset: str, engine: Engine, speed: float) -> Policy:
    """Write the policy of this run beside its data and read it as the gateway will.

    `speed` divides its thresholds, since engines and traffic go faster too.
    """
    text = (files("plimsoll.load") / "demo" / "policy.yaml").read_text(encoding="utf-8")
    urls = ", ".join(f'"{url}"' for url in replicas)
    text = re.sub(r"replicas: \[.*\]", f"replicas: [{urls}]", text)
    if engine is Engine.LLAMACPP:
        text = text.replace("llama-3.1-8b", "smollm2-135m").replace("engine: vllm", "engine: llamacpp")
        text = re.sub(r" *profile: .*\n", "", text)
    if speed != 1.0:
        text = _DURATIONS.sub(lambda found: f"{found[1]}: {parse_duration(found[2]) / speed * 1e3:.0f}ms", text)
    if preset != "default":
        text += f"scheduling: {preset}\n"
    target.write_text(text, encoding="utf-8")
    return document.load(target)
