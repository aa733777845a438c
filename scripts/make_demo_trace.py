"""Make the demo's trace: ten minutes of eight tenants, one of which turns noisy at minute 3.

    python scripts/make_demo_trace.py $PLIMSOLL_DATA/azure2023/AzureLLMInferenceTrace_conv.csv.gz plimsoll/load/demo

Lengths are drawn from the Azure conversation trace of 2023 (CC-BY-4.0, see the NOTICE beside the result), prompt and
output of one row together; arrivals are Poisson; tenants and prefixes are made up. Same input, same bytes.
"""

import csv
import gzip
import random
import sys
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from plimsoll.storage.tracerow import TraceRow
from plimsoll.storage.traces import read

SEED: Final = 2026
DURATION: Final = 600.0  # s
BLOCK: Final = 128  # tokens a prefix id stands for


class Player(NamedTuple):
    """A tenant of the demo. `prefix_blocks` are its own system prompt; `cause` is what its requests are for."""

    name: str
    per_second: float
    prefix_blocks: int
    cause: str
    start_at: float = 0.0  # s
    end_at: float = DURATION
    long_prompts: bool = False


PLAYERS: Final = (
    Player("harbor", 0.8, 2, "chat"),
    Player("lantern", 0.6, 4, "assistant"),
    Player("compass", 0.8, 1, "chat"),
    Player("sextant", 0.6, 2, "search"),
    Player("anchor", 0.6, 0, "chat"),
    Player("ballast", 0.5, 0, "summaries"),
    Player("barge", 0.3, 0, "nightly"),
    Player("barge", 3.0, 0, "backfill", 180.0, 420.0, long_prompts=True),
    Player("dredger", 0.4, 1, "labelling"),
)
"""Barge is the noisy neighbour: from minute 3 to minute 7 it sends ten times as much, in long prompts."""


def rows(lengths: list[tuple[int, int]]) -> list[TraceRow]:
    """All requests in order of time, the first at 0."""
    made = [row for place, player in enumerate(PLAYERS) for row in _requests(place, player, lengths)]
    made.sort(key=lambda row: (row.at, row.tenant))
    return made


def _requests(place: int, player: Player, lengths: list[tuple[int, int]]) -> list[TraceRow]:
    dice = random.Random(f"{SEED}/{place}")
    made, at = [], player.start_at
    while (at := at + dice.expovariate(player.per_second)) < player.end_at:
        prompt, output = dice.choice(lengths)
        if player.long_prompts:
            prompt, output = dice.randint(6_000, 12_000), min(output, 160)
        ids = tuple(1000 * (place + 1) + block for block in range(player.prefix_blocks))
        prompt = max(prompt, len(ids) * BLOCK + 1)
        made.append(
            TraceRow(
                at=round(at, 3),
                prompt_tokens=prompt,
                output_tokens=output,
                prefix_ids=ids,
                block_tokens=BLOCK if ids else 0,
                tenant=player.name,
                session=f"{player.name}-{dice.randrange(1 + int(player.per_second * 40))}",
                cause=player.cause,
            )
        )
    return made


def main(source: Path, target: Path) -> None:
    """Read the Azure trace, write `trace.csv.gz`."""
    lengths = [(row.prompt_tokens, row.output_tokens) for row in islice(read(source), 19_366)]
    text = StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(TraceRow.__struct_fields__)
    for row in rows(lengths):
        ids = " ".join(map(str, row.prefix_ids))
        values = [getattr(row, field) for field in TraceRow.__struct_fields__]
        out.writerow(
            [
                ids if field == "prefix_ids" else value
                for field, value in zip(TraceRow.__struct_fields__, values, strict=True)
            ]
        )
    (target / "trace.csv.gz").write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
