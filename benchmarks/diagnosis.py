"""How often a diagnosis names what was injected: episodes of every kind, a confusion matrix, and CPU s an hour takes.

`python -m benchmarks.diagnosis [EPISODES] [KIND …] [odd] [--from SEED] [--keep FILE] [--share I/N]`. Parameters were
chosen on even seeds; odd ones (another engine, other traffic, other scheduling) are for reporting, from SEED on.
Incidents in which the victim missed fewer than five objectives are counted apart: there was nothing to explain.
`pairs` stands for all incidents of two causes, `all` for every kind, pairs, and four times as many without any fault.

With `--keep` each episode's outcome is a line of FILE, and what is there already is not run again: stopped at any time,
the same command goes on where it was, and when all is there it only prints. N processes at once take `--share 1/N` to
`--share N/N` with one FILE, each printing what is its own; a last one without `--share` prints all.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from benchmarks.episodes import KINDS, PAIRS, VICTIM, episode
from plimsoll.diagnosis.diagnose import Mechanism, diagnose
from plimsoll.diagnosis.enginesignals import States
from plimsoll.diagnosis.visits import visits_of

_COMPUTE = {Mechanism.COMPUTE}
MECHANISMS: dict[str, set[Mechanism]] = {
    "neighbour_long_prompts": {Mechanism.NEIGHBOUR},
    "neighbour_surge": {Mechanism.NEIGHBOUR},
    "own_longer_prompts": _COMPUTE,
    "own_longer_answers": _COMPUTE,
    "own_surge": {Mechanism.SCHEDULING, Mechanism.COMPUTE},
    "overload": {Mechanism.SCHEDULING},
    "cache_misses": {Mechanism.SCHEDULING, Mechanism.COMPUTE},
    "slow_replica": _COMPUTE,
    "slower_engines": _COMPUTE,
    "upstream": {Mechanism.OUTSIDE},
    "kv_exhaustion": {Mechanism.SCHEDULING},
    "preemption_storm": {Mechanism.SCHEDULING},
    "replica_lost": {Mechanism.SCHEDULING},
    "no_fault": {Mechanism.NONE},
}
"""Right answers: a load that is too much for all shows in steps first and in queues later. Others: the compute path."""


class Outcome(Struct, frozen=True):
    """What a diagnosis made of one episode; `named` is empty where nothing was, `ran` is CPU s for 100,000 rows."""

    kind: str
    seed: int
    num_bad: int
    named: str
    second: str
    mechanism: Mechanism
    right: bool
    both: bool  # of a pair: both causes are among those named
    ran: float
    took: float = 0.0  # CPU s of the episode, simulation and diagnosis

    @property
    def is_incident(self) -> bool:
        """Whether there is something to explain, or nothing that should be explained."""
        return self.kind == "no_fault" or self.num_bad >= 5

    @property
    def right_mechanism(self) -> bool:
        """Of a pair: that of either."""
        return any(self.mechanism in MECHANISMS.get(name, _COMPUTE) for name in self.kind.split("+"))


def judged(kind: str, seed: int) -> Outcome:
    """Make an episode and diagnose it."""
    started = time.process_time()
    incident = episode(kind, seed)
    began = time.process_time()
    found = diagnose(visits_of(incident.records), incident.engines, VICTIM, states=States(incident.states))
    ran = (time.process_time() - began) * 100_000 / len(incident.records)
    named = [cause.kind for cause in found.causes]
    top = named[0] if named else None
    groups = [KINDS[name][1] for name in kind.split("+")]
    return Outcome(
        kind, seed, found.num_bad, top.value if top else "", named[1].value if len(named) > 1 else "", found.mechanism,
        top in incident.kinds if incident.kinds else top is None,
        len(groups) > 1 and all(any(each in group for each in named[:3]) for group in groups), ran,
        time.process_time() - started,
    )  # fmt: skip


def main() -> None:
    wanted = _arguments(sys.argv[1:])
    part, parts = wanted.share
    known = {(each.kind, each.seed): each for each in _kept(wanted.keep)}
    done: list[Outcome] = []
    for kind, episodes in groupby(list(_episodes(wanted))[part - 1 :: parts], key=lambda episode: episode[0]):
        outcomes = [known.get(each) or _made(*each, wanted.keep) for each in episodes]
        _show_kind(kind, outcomes)
        done += outcomes
    _show_all(done)


def _made(kind: str, seed: int, keep: Path | None) -> Outcome:
    outcome = judged(kind, seed)
    if keep is not None:
        with keep.open("ab") as file:  # one short write at the end: several processes may
            file.write(msgspec.json.encode(outcome) + b"\n")
    return outcome


class Wanted(Struct, frozen=True):
    """What was asked for on the command line."""

    num: int
    words: tuple[str, ...]
    first: int
    keep: Path | None
    share: tuple[int, int]


def _arguments(words: list[str]) -> Wanted:
    if {"-h", "--help"} & set(words):
        print(__doc__)
        sys.exit()
    options: dict[str, str] = {}
    for name in ("--keep", "--share", "--from"):
        if name in words:
            place = words.index(name)
            if place + 1 == len(words):
                sys.exit(f"{name} needs a value")
            options[name] = words[place + 1]
            words = [*words[:place], *words[place + 2 :]]
    known = {*KINDS, *_pairs(), "pairs", "all", "odd", "even"}
    if unknown := [word for word in words if not word.isdigit() and word not in known]:
        sys.exit(f"no such kind of episode: {', '.join(unknown)}; there are all, pairs, {', '.join(KINDS)}")
    part, _, parts = options.get("--share", "1/1").partition("/")
    return Wanted(
        num=next((int(word) for word in words if word.isdigit()), 5),
        words=tuple([word for word in words if not word.isdigit() and word not in {"odd", "even"}]) or tuple(KINDS),
        first=int(options.get("--from", "1" if "odd" in words else "0")),
        keep=Path(options["--keep"]) if "--keep" in options else None,
        share=(int(part), int(parts)),
    )


def _episodes(wanted: Wanted) -> Iterable[tuple[str, int]]:
    """Kind and seed, in order; every second seed, so that all are odd or all even."""
    for word in wanted.words:
        for kind in {"pairs": _pairs(), "all": [*KINDS, *_pairs()]}.get(word, [word]):
            num = 4 * wanted.num if kind == "no_fault" and "all" in wanted.words else wanted.num
            yield from ((kind, seed) for seed in range(wanted.first, wanted.first + 2 * num, 2))


def _pairs() -> list[str]:
    return ["+".join(pair) for pair in PAIRS]


def _kept(path: Path | None) -> Iterable[Outcome]:
    if path is None or not path.exists():
        return []
    return [msgspec.json.decode(line, type=Outcome) for line in path.read_bytes().splitlines()]


def _show_kind(kind: str, outcomes: list[Outcome]) -> None:
    incidents = [each for each in outcomes if each.is_incident]
    named = Counter(each.named or "(none)" for each in incidents)
    right, mechanism = sum(each.right for each in incidents), sum(each.right_mechanism for each in incidents)
    others = ", ".join(f"{name} {count}" for name, count in named.most_common())
    both = f"  both named {sum(each.both for each in incidents)}" if "+" in kind else ""
    print(f"{kind:44} judged {len(incidents):3} of {len(outcomes):3}  cause right {right:3}  "
          f"mechanism right {mechanism:3}{both}  named: {others}", flush=True)  # fmt: skip


def _show_all(outcomes: list[Outcome]) -> None:
    for title, chosen in (("single causes", False), ("pairs", True)):
        judged_ones = [e for e in outcomes if e.is_incident and e.kind != "no_fault" and ("+" in e.kind) is chosen]
        if judged_ones:
            right = sum(each.right for each in judged_ones) / len(judged_ones)
            mechanism = sum(each.right_mechanism for each in judged_ones) / len(judged_ones)
            print(f"{title}: root cause {right:.1%}, mechanism {mechanism:.1%} of {len(judged_ones)} incidents")
    quiet = [each for each in outcomes if each.kind == "no_fault"]
    if quiet:
        print(f"no fault: {sum(not each.right for each in quiet)} of {len(quiet)} accused")
    _show_matrix(outcomes)
    print(f"an episode: {np.mean([each.took for each in outcomes]):.2f} CPU s on average, to simulate and to diagnose")
    print(f"diagnosis of 100,000 requests: {np.median([each.ran for each in outcomes]):.2f} CPU s")


def _show_matrix(outcomes: list[Outcome]) -> None:
    """Rows: what was injected; columns: what was named, numbered."""
    cells: dict[str, Counter[str]] = defaultdict(Counter)
    for each in outcomes:
        if each.is_incident:
            cells[each.kind][each.named or "(none)"] += 1
    names = sorted({name for row in cells.values() for name in row})
    print("\nconfusion matrix (rows injected, columns named)")
    for number, name in enumerate(names, 1):
        print(f"  {number:2} {name}")
    print(" " * 44 + "".join(f"{number:4}" for number in range(1, len(names) + 1)))
    for kind, row in cells.items():
        print(f"{kind:44}" + "".join(f"{row[name] or '':>4}" for name in names))


if __name__ == "__main__":
    main()
