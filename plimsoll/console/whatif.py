"""Page 7, what if: a change or a growth, simulated beside today by `plimsoll simulate`, one job at a time.

The traffic is learnt from the log by `plimsoll workload learn`, so that both sides see the same; a job is three
processes one after another in a folder of its own, with little priority, that can be stopped at any time.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from plimsoll.console.simulated import Side
from plimsoll.errors import UsageError
from plimsoll.load.children import die_with_parent
from plimsoll.policy.yamlreader import reader
from plimsoll.policy.yamltext import compact
from plimsoll.storage.projector import give_way

MOST_SEEDS: Final = 8
MOST_FACTOR: Final = 20.0
_PROGRESS: Final = re.compile(rb'^\{"progress":([0-9.]+)')


class Change(Struct, frozen=True):
    """What is tried. `set_path` and `set_value` are as `plimsoll sweep --set` takes them; "" for none."""

    factor: float = 1.0
    tenant: str = ""  # whose traffic grows; "": everybody's
    rules: str = ""  # scheduling preset; "": the policy's own
    set_path: str = ""
    set_value: str = ""
    seeds: int = 3

    def check(self) -> "Change":
        """Itself. Raises UsageError where a number makes no sense."""
        if not 0.05 <= self.factor <= MOST_FACTOR:
            raise UsageError(f"growth {self.factor:g}: from 0.05 to {MOST_FACTOR:g} times")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise UsageError(f"{self.seeds} seeds: from 1 to {MOST_SEEDS}")
        if bool(self.set_path) != bool(self.set_value):
            raise UsageError("a change of the policy is a path and a value, such as tiers.gold.share and 50%")
        return self


def grown(text: str, factor: float, tenant: str) -> str:
    """A workload file with the rates of all tenants, or of one, times `factor`."""
    document = reader().load(text)
    names = [each["name"] for each in document["tenants"]]
    if tenant and tenant not in names:
        raise UsageError(f"{tenant} sent too little to be learnt; known: {', '.join(names)}")
    for each in document["tenants"]:
        if tenant in {"", each["name"]}:
            each["rate"] = each["rate"] * factor
            for change in each.get("changes", ()):
                change["rate"] = change["rate"] * factor
    return compact(document)


def side_of(summary: bytes) -> Side:
    """What `simulate --json` said."""
    return msgspec.json.decode(summary, type=Side)


class Job:
    """One what-if: its state is read by pages while it runs."""

    def __init__(
        self, root: Path, change: Change, replaced: Callable[[str, str, str], str], told: Callable[[], None]
    ) -> None:
        self.change = change.check()
        self.state = "running"  # running, done, cancelled, failed
        self.step = "learn"  # learn, today, changed
        self.progress = 0.0
        self.error = ""
        self.today: Side | None = None
        self.changed: Side | None = None
        self._root, self._replaced, self._told = root, replaced, told
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Until it is done, cancelled or failed; never raises."""
        home = Path(tempfile.mkdtemp(prefix="plimsoll-what-if-"))
        try:
            await self._steps(home)
            self._end("done")
        except UsageError as error:
            self.error = str(error)
            self._end("failed")
        except asyncio.CancelledError:
            self._kill()
            self._end("cancelled")
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def cancel(self) -> None:
        """Stop it now."""
        if self.state == "running":
            self.state = "cancelled"
            self._kill()

    def _end(self, state: str) -> None:
        if self.state == "running":
            self.state = state
        self._told()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def _steps(self, home: Path) -> None:
        change, policy = self.change, (self._root / "policy.yaml").read_text(encoding="utf-8")
        now, then = home / "now.yaml", home / "then.yaml"
        await self._plimsoll("workload", "learn", str(self._root), "-o", str(now), "--json")
        text = now.read_text(encoding="utf-8")
        then.write_text(grown(text, change.factor, change.tenant), encoding="utf-8")
        policies = (home / "today.yaml", home / "changed.yaml")
        policies[0].write_text(policy, encoding="utf-8")
        changed = self._replaced(policy, change.set_path, change.set_value) if change.set_path else policy
        policies[1].write_text(changed, encoding="utf-8")
        self.step = "today"
        self.today = side_of(await self._simulate(policies[0], now, home / "a", ""))
        self.step = "changed"
        self.changed = side_of(await self._simulate(policies[1], then, home / "b", change.rules))

    async def _simulate(self, policy: Path, workload: Path, out: Path, rules: str) -> bytes:
        more = (f"--rules={rules}",) if rules else ()
        return await self._plimsoll(
            "simulate", "-c", str(policy), "--workload", str(workload), "--out", str(out), "--json", "--progress",
            f"--seeds={self.change.seeds}", *more,
        )  # fmt: skip

    async def _plimsoll(self, *line: str) -> bytes:
        if self.state != "running":
            raise UsageError("cancelled")
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "plimsoll", *line, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, preexec_fn=_begin,
        )  # fmt: skip
        said, _ = await asyncio.gather(process.stdout.read() if process.stdout else _nothing(), self._listen(process))
        if await process.wait() != 0:
            raise UsageError(self.error or f"plimsoll {line[0]} ended with {process.returncode}")
        return said

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Progress as it comes; the last other line is why it failed, if it did."""
        while process.stderr is not None and (line := await process.stderr.readline()):
            found = _PROGRESS.match(line)
            if found is None:
                self.error = line.decode("utf-8", "replace").strip()
                continue
            self.error = ""
            self.progress = (float(found[1]) + (self.step == "changed")) / 2
            self._told()


async def _nothing() -> bytes:
    return b""


def _begin() -> None:
    """In the new process: let others go first, and end with the console, whatever ends that."""
    give_way(0)
    die_with_parent()
