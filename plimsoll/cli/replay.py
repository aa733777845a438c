"""`plimsoll replay`: send a trace's traffic to a service and tell what came back."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from plimsoll.cli.options import Seconds
from plimsoll.cli.output import print_json
from plimsoll.cli.replaytable import Meter, endings, summary_table
from plimsoll.errors import UsageError
from plimsoll.load.client import Manner
from plimsoll.load.connection import target as parse_target
from plimsoll.load.models import first_model
from plimsoll.load.plan import Planned, Shape, plan
from plimsoll.load.replay import Replay, run_name
from plimsoll.load.result import Result, Seen
from plimsoll.load.summary import Summary, Tallies
from plimsoll.load.tenants import Sender, read_senders
from plimsoll.storage.traces import read


@dataclass(frozen=True)
class Traffic:
    """Which part of the trace is sent, how fast and how long."""

    speed: Annotated[float, Parameter(help="How many times faster than the trace's own clock.")] = 1.0
    limit: Annotated[int, Parameter(help="Send at most so many requests; 0: all.")] = 0
    skip: Annotated[Seconds, Parameter(help="Leave out this much at the trace's start (its own time).")] = 0.0
    duration: Annotated[Seconds, Parameter(help="Time of the trace (its own) to send, like 90s or 10min; 0: all.")] = (
        0.0
    )
    sample: Annotated[float, Parameter(help="Keep this ratio (0 to 1) of the requests, drawn by row.")] = 1.0
    scale_lengths: Annotated[str, Parameter(help="Multiply token counts: one number for both, or PROMPT,OUTPUT.")] = "1"
    max_prompt: Annotated[int, Parameter(help="Cap prompts at so many tokens; 0: no cap.")] = 0
    max_output: Annotated[int, Parameter(help="Cap outputs at so many tokens; 0: no cap.")] = 0
    cancel: Annotated[float, Parameter(help="Ratio of requests (0 to 1) whose client leaves early.")] = 0.0
    cancel_after: Annotated[Seconds, Parameter(help="Mean time after which those leave.")] = 2.0
    seed: Annotated[int, Parameter(help="Same seed, same plan, byte for byte.")] = 0

    def shape(self) -> Shape:
        """The same as a checked value."""
        prompt_scale, output_scale = _scales(self.scale_lengths)
        return Shape(
            speed=_above_zero("--speed", self.speed),
            seed=self.seed,
            skip=self.skip,
            duration=self.duration,
            limit=self.limit,
            sample_ratio=_ratio("--sample", self.sample),
            prompt_scale=prompt_scale,
            output_scale=output_scale,
            max_prompt_tokens=self.max_prompt,
            max_output_tokens=self.max_output,
            cancel_ratio=_ratio("--cancel", self.cancel),
            cancel_after=_above_zero("--cancel-after", self.cancel_after),
        )


@dataclass(frozen=True)
class Asking:
    """How each request is sent."""

    model: Annotated[str, Parameter(help="Model to ask for; default: the first that the target lists.")] = ""
    endpoint: Annotated[
        Literal["completions", "chat"],
        Parameter(help="completions sends token ids (exact lengths), chat sends words (about one token each)."),
    ] = "completions"
    stream: Annotated[bool, Parameter(help="Ask for streamed answers.")] = True
    ignore_eos: Annotated[bool, Parameter(help="Ask engines that know it to go on to the trace's output length.")] = (
        True
    )
    vocabulary: Annotated[
        str, Parameter(help="Token ids for prompts, LOW-HIGH, HIGH left out, all with the same number of digits.")
    ] = "1000-2047"
    timeout: Annotated[Seconds, Parameter(help="How long a client waits for its answer; 0: as long as it takes.")] = 0.0

    def manner(self, url: str, senders: tuple[Sender, ...], seed: int) -> Manner:
        """The same as a checked value; asks the target for its model where none is named."""
        where = parse_target(url)
        vocabulary = _vocabulary(self.vocabulary)
        return Manner(
            target=where,
            run=run_name(),
            model=self.model or first_model(where, senders[0].key),
            endpoint=self.endpoint,
            streaming=self.stream,
            ignore_eos=self.ignore_eos,
            timeout=self.timeout,
            seed=seed,
            vocabulary=vocabulary,
        )


def replay(
    trace: Path,
    /,
    *,
    target: str,
    tenants: Path,
    traffic: Annotated[Traffic, Parameter(name="*")] = Traffic(),
    asking: Annotated[Asking, Parameter(name="*")] = Asking(),
    jobs: int = 1,
    out: Path | None = None,
    gaps: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Send a trace's traffic to an OpenAI-compatible service, on time whatever it answers (open loop).

    Latencies count from the planned arrival, so a service or client that falls behind cannot hide it. Ctrl-C ends
    early with a report of what was seen so far. Exit status 1 where no request got its answer.

    Example: plimsoll replay AzureLLMInferenceTrace_conv.csv.gz --target http://127.0.0.1:8000 --tenants map.yaml
    --speed 10 --out seen.jsonl

    Parameters
    ----------
    trace
        CSV or JSON lines, gzipped or not: Azure, Mooncake, LLMServingSim, APEX or Plimsoll's own format.
    target
        Base URL of the service, like http://127.0.0.1:8000.
    tenants
        YAML or CSV with each tenant's name, key and, if wanted, weight and model.
    jobs
        Processes that send.
    out
        Write a JSON line for each request: ids, instants, outcome.
    gaps
        Write each request's token gaps there too.
    json
        Print the report as JSON.
    """
    senders = read_senders(tenants)
    planned = tuple(plan(read(trace), senders, traffic.shape()))
    if not planned:
        raise UsageError(f"{trace} has no request after --skip {traffic.skip:g}")
    manner = asking.manner(target, senders, traffic.seed)
    summary = send(planned, senders, manner, num_jobs=jobs, out=out, gaps=gaps)
    if json:
        print_json(summary)
    else:
        summary_table(summary)
    if nothing_came(summary):
        print(f"plimsoll: no request got its answer: {endings(summary.total)}", file=sys.stderr)  # noqa: T201 - its own voice
        sys.exit(1)


def nothing_came(summary: Summary) -> bool:
    """Whether every request was sent and none got its answer, or left as planned."""
    outcomes = summary.total.outcomes
    return not (summary.stopped or outcomes.get(Seen.COMPLETED) or outcomes.get(Seen.LEFT))


def send(
    planned: tuple[Planned, ...],
    senders: tuple[Sender, ...],
    manner: Manner,
    *,
    num_jobs: int = 1,
    out: Path | None = None,
    gaps: bool = False,
) -> Summary:
    """Run the replay with a progress bar on a terminal; Ctrl-C and SIGTERM end it early."""
    running = Replay(planned, senders, manner, num_jobs)
    tallies = Tallies(manner.run)
    with _rows_to(out, gaps) as write, _ended_by_signals(running), Meter(planned) as meter:
        for batch in running.batches():
            for result in batch:
                tallies.add(result)
                write(result)
            write.flush()
            meter.show(tallies.outcomes)
    return tallies.summary(running.start_at)


class _Writer:
    """Writes JSON lines; without gaps unless they are wanted."""

    def __init__(self, path: Path | None, gaps: bool) -> None:
        self._gaps = gaps
        self._file = path.open("wb") if path is not None else None
        self._encoder = msgspec.json.Encoder()

    def __call__(self, result: Result) -> None:
        """Write one row."""
        if self._file is not None:
            row = result if self._gaps else msgspec.structs.replace(result, gaps=())
            self._file.write(self._encoder.encode(row) + b"\n")

    def flush(self) -> None:
        """Let others read what was written."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()


@contextmanager
def _rows_to(path: Path | None, gaps: bool) -> Iterator[_Writer]:
    try:
        writer = _Writer(path, gaps)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        yield writer
    finally:
        writer.close()


@contextmanager
def _ended_by_signals(running: Replay) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        running.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _scales(text: str) -> tuple[float, float]:
    parts = text.split(",")
    try:
        numbers = [_above_zero("--scale-lengths", float(part)) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in {1, 2}:
        raise UsageError(f"--scale-lengths {text!r}: give one number, or two as PROMPT,OUTPUT")
    return numbers[0], numbers[-1]


def _vocabulary(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit() and int(low) + 1 < int(high) and len(low) == len(str(int(high) - 1))):
        raise UsageError(f"--vocabulary {text!r}: give LOW-HIGH, both with the same number of digits, like 1000-2047")
    return int(low), int(high)


def _above_zero(option: str, number: float) -> float:
    if not 0 < number < float("inf"):
        raise UsageError(f"{option} {number:g}: must be above 0")
    return number


def _ratio(option: str, number: float) -> float:
    if not 0 <= number <= 1:
        raise UsageError(f"{option} {number:g}: is a ratio between 0 and 1")
    return number
