"""`plimsoll demo`: the whole thing on one machine, in ten minutes: engines, gateway, traffic, a live view."""

import asyncio
import re
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from rich.console import Console

from plimsoll.cli.admintoken import read_token
from plimsoll.cli.demostory import story
from plimsoll.cli.options import Seconds
from plimsoll.cli.output import Terminal
from plimsoll.cli.watching import Watch, watch
from plimsoll.errors import UsageError
from plimsoll.load.children import Child, Children, plimsoll
from plimsoll.load.demostage import DURATION, NOISY, Engine, senders, trace_path, write_policy
from plimsoll.load.llamacpp import demo_model
from plimsoll.policy.policy import Policy

READY_WITHIN: Final = 30.0  # s for an engine or the gateway to listen
LLAMACPP_TRAFFIC: Final = ("--sample", "0.12", "--scale-lengths", "0.06", "--vocabulary", "1000-9999")
"""What SmolLM2 on a core or two can carry of the trace."""
LLAMACPP_PACE: Final = 0.4  # thresholds are 2.5 times as long: a core is no GPU


@dataclass(frozen=True)
class Staging:
    """What is played."""

    policy: Annotated[
        Literal["default", "fcfs"], Parameter(help="default governs; fcfs sends everything on as it comes, to compare.")
    ] = "default"
    duration: Annotated[Seconds, Parameter(help="Time of the trace to play, like 90s.")] = DURATION
    skip: Annotated[
        Seconds, Parameter(help="Leave out the start of the trace; the neighbour is noisy from 180s to 420s.")
    ] = 0.0
    speed: Annotated[float, Parameter(help="Everything so many times faster: trace, engines and thresholds.")] = 1.0
    engine: Annotated[
        Literal["emulate", "llamacpp"], Parameter(help="Emulated GPUs, or real llama.cpp with SmolLM2-135M on the CPU.")
    ] = "emulate"
    replicas: Annotated[int, Parameter(help="Engines behind the gateway.")] = 3
    seed: Annotated[int, Parameter(help="Same seed, same requests.")] = 0


def demo(
    *,
    staging: Annotated[Staging, Parameter(name="*")] = Staging(),
    dir: Path | None = None,  # noqa: A002 - the option's name
    plain: Annotated[bool, Parameter(negative="")] = False,
    picture: Path | None = None,
) -> None:
    """Play ten minutes of eight tenants on three engines; at minute 3 one turns noisy. Watch.

    It ends by itself or with Ctrl-C and leaves a data directory for `plimsoll report`. Run it again with --policy fcfs
    to see the same traffic without Plimsoll's scheduling.

    Parameters
    ----------
    dir
        Where data, logs and the policy go; default: a new folder in demo-data/.
    plain
        Print a line every 10 s instead of the live view, as happens where the output is no terminal.
    picture
        Keep the last view there, as SVG.
    """
    _check(staging)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = _home(dir, staging.policy)
    console = Terminal()
    with Children(home / "logs") as children:
        try:
            play = _Play(staging, home, children, console)
            play.raise_curtain()
            asyncio.run(watch(play.watching(picture, on_terminal=sys.stdout.isatty() and not plain)))
            play.check_fallen()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what follows ends by itself within seconds
            console.print("Ending early.")
    story(console, home / "client.jsonl", staging.speed, staging.skip)
    if (home / "journal").exists():
        console.print(f"\nNext: [bold]plimsoll report {home}[/bold]", soft_wrap=True)


class _Play:
    """Starts the parts in order and knows when it is over."""

    def __init__(self, staging: Staging, home: Path, children: Children, console: Console) -> None:
        self._staging, self._home, self._children, self._console = staging, home, children, console
        self._engine = Engine(staging.engine)
        self._policy: Policy | None = None
        self._replay: Child | None = None
        self._admin_url = ""
        self._token: Path | None = None
        self._console_url = ""

    def raise_curtain(self) -> None:
        """Engines, gateway, traffic."""
        staging = self._staging
        self._console.print(f"Starting {staging.replicas} engines ({staging.engine}) and the gateway …")
        urls = [_url(child.ready(READY_WITHIN)) for child in self._start_engines()]
        path = self._home / "demo-policy.yaml"
        pace = LLAMACPP_PACE if self._engine is Engine.LLAMACPP else staging.speed
        self._policy = write_policy(path, urls, staging.policy, self._engine, pace)
        line = plimsoll("serve", str(path), "--data", str(self._home), "--port", "0", "--admin-port", "0")
        line += ["--console", "127.0.0.1:0"]
        ready = self._children.start("gateway", line).ready(READY_WITHIN)
        self._admin_url = _url(ready.partition("admin")[2])
        self._console_url = _url(ready.rpartition(" console ")[2])
        token = re.search(r"token (\S+)", ready)
        self._token = Path(token[1]) if token else None
        self._replay = self._children.start("replay", self._replay_line(_url(ready), self._policy))

    def _start_engines(self) -> list[Child]:
        staging = self._staging
        if self._engine is Engine.LLAMACPP:
            line = [sys.executable, "-m", "plimsoll.load.llamacpp", "--model", str(demo_model())]
        else:
            line = plimsoll("emulate", "--profile", "rtx4090-llama8b", "--model", "llama-3.1-8b", "--port", "0")
            line += ["--speed", f"{staging.speed:g}"]
        return [self._children.start(f"engine-{number}", line) for number in range(1, staging.replicas + 1)]

    def _replay_line(self, url: str, policy: Policy) -> list[str]:
        staging, people = self._staging, self._home / "tenants.yaml"
        people.write_text("".join(f"{sender.name}: {sender.key}\n" for sender in senders(policy)), encoding="utf-8")
        line = plimsoll("replay", str(trace_path()), "--target", url, "--tenants", str(people))
        line += ["--speed", f"{staging.speed:g}", "--seed", str(staging.seed)]
        line += ["--skip", f"{staging.skip:g}", "--duration", f"{staging.duration:g}"]
        line += ["--out", str(self._home / "client.jsonl"), "--timeout", f"{120 / staging.speed:g}"]
        return line + (list(LLAMACPP_TRAFFIC) if self._engine is Engine.LLAMACPP else [])

    def watching(self, picture: Path | None, *, on_terminal: bool) -> Watch:
        """What the live view needs."""
        if self._policy is None or self._replay is None:
            raise RuntimeError("the curtain is down")
        staging = self._staging
        return Watch(
            title="plimsoll demo",
            admin_url=self._admin_url,
            token=read_token(self._token),
            policy=self._policy,
            policy_name=staging.policy,
            over=self._over,
            total=min(staging.duration, DURATION - staging.skip) / staging.speed,
            on_terminal=on_terminal,
            picture=picture,
            note=f"{NOISY} turns noisy from 180 s to 420 s.  ≈: few values yet.  Ctrl-C ends.  {self._home}"
            f"  In a browser: {self._console_url}",
        )

    def _over(self) -> bool:
        return self._children.fallen() is not None

    def check_fallen(self) -> None:
        """The replay ends when its trace does; a part that ended before it is a fault. Raises UsageError."""
        fallen = self._children.fallen()
        if fallen is not None and (fallen.process.returncode or fallen is not self._replay):
            raise UsageError(f"{fallen.name} ended with {fallen.process.returncode}: see {fallen.log}")


def _check(staging: Staging) -> None:
    if staging.replicas < 1:
        raise UsageError(f"--replicas {staging.replicas}: at least one engine must answer")
    for option, number in (("--duration", staging.duration), ("--speed", staging.speed)):
        if not 0 < number < float("inf"):
            raise UsageError(f"{option} {number:g}: must be above 0")
    if not 0 <= staging.skip < DURATION:
        raise UsageError(f"--skip {staging.skip:g}: the trace has {DURATION:g} s")
    if staging.engine == "llamacpp" and staging.speed != 1.0:
        raise UsageError("--speed: real engines do not go faster; leave it at 1")


def _home(given: Path | None, policy: str) -> Path:
    """The folder of this run, made. Raises UsageError where it holds an earlier one."""
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d-%H%M%S")
    home = given or Path("demo-data") / f"{stamp}-{policy}"
    if home.exists() and any(home.iterdir()):
        raise UsageError(f"{home} is not empty: choose another --dir")
    home.mkdir(parents=True, exist_ok=True)
    return home


def _url(text: str) -> str:
    """The first URL of a READY line."""
    found = re.search(r"https?://[\w.:\[\]-]+", text)
    if found is None:
        raise UsageError(f"no address in {text!r}")
    return found[0]
