"""llama-server's log: a slot takes a task, prints its timings, is released. No text of prompts is in it.

    0.04.420.292 I slot launch_slot_: id  3 | task 0 | processing task
    0.06.315.273 I slot print_timing: id  3 | task 0 | prompt eval time = 170.92 ms / 45 tokens (…)
    0.06.315.295 I slot print_timing: id  3 | task 0 |        eval time = 1723.76 ms / 24 tokens (…)
    0.06.316.120 I slot      release: id  3 | task 0 | stop processing: n_tokens = 68, truncated = 0

Lines begin with minutes.seconds.ms.µs since the start, where the server was asked for it; older versions print the
timings on lines of their own. A task that was cancelled before it had a slot has no arrival in the log, and is counted.
"""

import re
from typing import Final

from plimsoll.foreign.logfile import LogFile, Numbered
from plimsoll.foreign.visit import Cells

MOST_OPEN: Final = 100_000
_CLOCK: Final = re.compile(r"(?:\[\d+\] )?(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) ")
_TASK: Final = re.compile(r"slot +(\w+): id +(\d+) \| task (\d+) \|(.*)")
_CANCEL: Final = re.compile(r"cancel task, id_task = (\d+)")
_EVAL: Final = re.compile(r"(prompt eval|(?<!prompt )eval|total) time = +([\d.]+) ms / +(\d+) (?:tokens|runs)")
_PROMPT: Final = re.compile(r"(?:task\.n_tokens|n_prompt_tokens) = (\d+)")
_MODEL: Final = re.compile(r"loading model '([^']+)'")


def recognise(file: LogFile) -> str:
    """Why it is one; "" where it is not."""
    for line in file.head_lines():
        if _TASK.search(line) and ("launch_slot_" in line or "print_timing" in line):
            return "it has lines of llama-server's slots (launch_slot_, print_timing)"
    return ""


def has_clock(file: LogFile) -> bool:
    """Whether its lines begin with an instant."""
    return any(_CLOCK.match(line) for line in file.head_lines())


def rows(file: LogFile) -> Numbered:
    """One row a task that had a slot; without a clock they are laid one after another."""
    return _Log(file).rows()


class _Log:
    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._clocked = has_clock(file)
        self._open: dict[str, Cells] = {}
        self._of_slot: dict[str, str] = {}  # the task that a slot last spoke of, for timings on lines of their own
        self._last_task = ""
        self._at = 0.0
        self._model = ""

    def rows(self) -> Numbered:
        number = 0
        for number, line in self._file.lines():
            clock = _CLOCK.match(line)
            if clock is not None:
                minutes, seconds, millis, micros = (int(part) for part in clock.groups())
                self._at = minutes * 60 + seconds + millis / 1e3 + micros / 1e6
            yield from self._line(number, line)
        for cells in self._open.values():
            yield number, cells | {"finished_at": self._at, "status": "open"} if self._clocked else "has no end"

    def _line(self, number: int, line: str) -> Numbered:
        found = _TASK.search(line)
        if found is not None:
            what, slot, task, rest = found.groups()
            if what == "launch_slot_" and "processing task" in rest:
                yield from self._launch(number, slot, task)
            elif what == "release" and task in self._open:
                yield number, self._ended(task)
            elif task in self._open:
                self._last_task = task
                self._timing(task, rest)
            return
        cancelled = _CANCEL.search(line)
        if cancelled is not None:
            if cancelled[1] in self._open:
                self._open[cancelled[1]]["status"] = "cancelled"
            else:
                yield number, "was cancelled before it had a slot: its arrival is not in the log"
        elif " time = " in line and self._last_task in self._open:
            self._timing(self._last_task, line)
        elif not self._model and (model := _MODEL.search(line)):
            self._model = model[1].rpartition("/")[2]

    def _launch(self, number: int, slot: str, task: str) -> Numbered:
        if len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
            yield number, f"was still open when {MOST_OPEN:,} others were"
        self._open[task] = {"arrived_at": self._at, "request_id": f"task {task}", "model": self._model}
        self._last_task = task

    def _timing(self, task: str, text: str) -> None:
        cells = self._open[task]
        for kind, millis, num in _EVAL.findall(text):
            if kind == "prompt eval":
                cells["ttft"] = float(millis) / 1e3
                cells["computed"] = int(num)
            elif kind == "eval":
                cells["decode"], cells["output_tokens"] = float(millis) / 1e3, int(num)
            else:
                cells["e2e"] = float(millis) / 1e3
        prompt = _PROMPT.search(text)
        if prompt is not None:
            cells["prompt_tokens"] = int(prompt[1])

    def _ended(self, task: str) -> Cells | str:
        cells = self._open.pop(task)
        if "e2e" not in cells and not self._clocked:
            return "has no timings"
        if self._clocked:
            cells["finished_at"] = max(self._at, cells["arrived_at"] + cells.get("e2e", 0.0))
        else:  # no instant is known: one after another
            cells["arrived_at"] = self._at
            self._at += cells["e2e"]
        computed, prompt = cells.pop("computed", None), cells.get("prompt_tokens")
        if prompt is None and computed is not None:
            cells["prompt_tokens"] = computed
        elif prompt is not None and computed is not None:
            cells["cached_tokens"] = max(0, prompt - computed)
        decode, output = cells.pop("decode", None), cells.get("output_tokens", 0)
        if decode is not None and output > 1:
            cells["tpot"] = decode / (output - 1)  # the first token comes with the prompt's last step
        return cells
