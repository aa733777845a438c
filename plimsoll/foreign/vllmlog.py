"""vLLM's request log (`--enable-log-requests`, `--enable-log-outputs`): a request is received, answered, or aborted.

    INFO 05-14 17:45:10 [logger.py:42] Received request cmpl-1: prompt: '…', params: …, prompt_token_ids: […]
    INFO 05-14 17:45:12 [logger.py:86] Generated response cmpl-1 (streaming complete): output: '…', finish_reason: stop
    INFO 05-14 17:45:12 async_llm_engine.py:207] Finished request cmpl-1.

Instants are whole seconds, without a year. Prompts and answers in the log are passed over: nothing of them is kept.
"""

import re
from datetime import UTC, datetime
from typing import Final

from plimsoll.foreign.logfile import LogFile, Numbered
from plimsoll.foreign.visit import Cells

MOST_OPEN: Final = 100_000
_LINE: Final = re.compile(
    r"(?:\([^)]*\) )?[A-Z]+ (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))? \[?[\w./]+:\d+\] "
    r"(Received request|Added request|Generated response|Finished request|Aborted request|Request) "
    r"(\S+?)( aborted| failed| \(streaming delta\)| \(streaming complete\))?(?:[:.]| |$)(.*)"
)
_TOKEN_IDS: Final = re.compile(r"prompt_token_ids: \[([\d, ]+)\]")
_OUTPUT_IDS: Final = re.compile(r"output_token_ids: (?:\[([\d, ]+)\]|\(([\d, ]+)\))")
_FINISH: Final = re.compile(r"finish_reason: '?(\w+)'?")
_ADAPTER: Final = re.compile(r"lora_name='([^']*)'")
_STEP: Final = re.compile(r"-\d+$")


def recognise(file: LogFile) -> str:
    """Why it is one; "" where it is not."""
    for line in file.head_lines():
        found = _LINE.match(line)
        if found is not None and found[7] != "Request":
            return f'it has lines of vLLM\'s request logger ("{found[7]} …")'
    return ""


def rows(file: LogFile) -> Numbered:
    """One row a request whose beginning is there; those without an end are open when the log ends."""
    return _Log(file).rows()


class _Log:
    def __init__(self, file: LogFile) -> None:
        self._file = file
        self._year = datetime.fromtimestamp(file.path.stat().st_mtime, UTC).year
        self._open: dict[str, Cells] = {}
        self._month = 0
        self._at = 0.0

    def rows(self) -> Numbered:
        number = 0
        for number, line in self._file.lines():
            found = _LINE.match(line)
            if found is not None:
                self._at = self._instant(found)
                yield from self._event(number, found[7], found[8], (found[9] or "").strip(), found[10])
        for cells in self._open.values():
            yield number, cells | {"finished_at": self._at, "status": "open"}

    def _instant(self, found: re.Match[str]) -> float:
        month, day, hour, minute, second = (int(part) for part in found.groups()[:5])
        if month < self._month == 12:
            self._year += 1  # the log went over New Year
        self._month = month
        try:
            moment = datetime(self._year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
        except ValueError:  # 29 February, in a year that has none
            return self._at
        return moment + (float(f"0.{found[6]}") if found[6] else 0.0)

    def _event(self, number: int, what: str, request: str, how: str, rest: str) -> Numbered:
        request = request.rstrip(".:")
        if what in {"Received request", "Added request"}:
            yield from self._begun(number, request, rest)
            return
        known = request if request in self._open else _STEP.sub("", request)
        if known not in self._open:
            if what != "Generated response" or how != "(streaming delta)":
                yield number, "ends without a beginning in this file"
            return
        cells = self._open[known]
        if how == "(streaming delta)":
            cells.setdefault("first_token_at", self._at)
            cells["output_tokens"] = cells.get("output_tokens", 0) + 1
        elif what == "Generated response":
            cells["status"] = (_FINISH.search(rest) or ["", "stop"])[1]
            ids = _OUTPUT_IDS.search(rest)
            if ids is not None:
                cells["output_tokens"] = (ids[1] or ids[2]).count(",") + 1
            cells["streaming"] = how == "(streaming complete)"
            yield number, self._ended(known)
        elif what == "Request" and not how:
            return
        else:
            cells["status"] = {"Finished request": "stop", "Aborted request": "aborted"}.get(what, how)
            yield number, self._ended(known)

    def _begun(self, number: int, request: str, rest: str) -> Numbered:
        if request not in self._open:
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
                yield number, f"was still open when {MOST_OPEN:,} others were"
            self._open[request] = {"arrived_at": self._at, "request_id": request}
        ids, adapter = _TOKEN_IDS.search(rest), _ADAPTER.search(rest)
        if ids is not None:
            self._open[request]["prompt_tokens"] = ids[1].count(",") + 1
        if adapter is not None:
            self._open[request]["adapter"] = adapter[1]

    def _ended(self, request: str) -> Cells:
        cells = self._open.pop(request)
        cells["finished_at"] = self._at
        return cells
