"""How often a diagnosis names what was injected: episodes of every kind, a confusion matrix, and seconds an hour takes.

`python -m benchmarks.diagnosis [EPISODES] [KIND …] [--half even|odd]`. Parameters were chosen on even seeds; odd ones
(another engine, other traffic) are for reporting. Incidents in which the victim missed fewer than five objectives are
counted apart: there was nothing to explain.
"""

import sys
import time
from collections import Counter

import numpy as np

from benchmarks.episodes import KINDS, VICTIM, episode
from plimsoll.diagnosis.diagnose import Mechanism, diagnose
from plimsoll.diagnosis.visits import visits_of

MECHANISMS = {
    "neighbour_long_prompts": {Mechanism.NEIGHBOUR},
    "neighbour_surge": {Mechanism.NEIGHBOUR},
    "own_longer_prompts": {Mechanism.COMPUTE},
    "own_longer_answers": {Mechanism.COMPUTE},
    "own_surge": {Mechanism.SCHEDULING, Mechanism.COMPUTE},
    "overload": {Mechanism.SCHEDULING},
    "cache_misses": {Mechanism.SCHEDULING, Mechanism.COMPUTE},
    "slow_replica": {Mechanism.COMPUTE},
    "slower_engines": {Mechanism.COMPUTE},
    "upstream": {Mechanism.OUTSIDE},
    "kv_exhaustion": {Mechanism.SCHEDULING},
    "no_fault": {Mechanism.NONE},
}
"""Right answers: a load that is too much for all shows in steps first and in queues later."""


def main() -> None:
    arguments = [each for each in sys.argv[1:] if not each.startswith("--")]
    first = 1 if "--odd" in sys.argv or "odd" in arguments else 0
    arguments = [each for each in arguments if each not in {"odd", "even"}]
    num = int(arguments[0]) if arguments else 5
    kinds = arguments[1:] or list(KINDS)
    rows, rights, mechanisms, took = [], [], [], []
    for kind in kinds:
        named: Counter[str] = Counter()
        right, mechanism, judged = 0, 0, 0
        for seed in range(first, first + 2 * num, 2):
            incident = episode(kind, seed)
            began = time.process_time()
            found = diagnose(visits_of(incident.records), incident.engines, VICTIM)
            took.append((time.process_time() - began) * 100_000 / len(incident.records))
            if incident.kinds and found.num_bad < 5:
                named["(no incident)"] += 1
                continue
            judged += 1
            cause = {found.cause.kind} if found.cause else set()
            named[next(iter(cause)).value if cause else "(none)"] += 1
            right += bool(cause & incident.kinds) if incident.kinds else not cause
            mechanism += found.mechanism in MECHANISMS[kind]
        rows.append((kind, judged, right, mechanism, named))
        if kind != "no_fault":
            rights.append((right, judged))
            mechanisms.append((mechanism, judged))
        others = ", ".join(f"{name} {count}" for name, count in named.most_common())
        print(f"{kind:24} judged {judged:3}  cause right {right:3}  mechanism right {mechanism:3}  named: {others}")
    total = sum(judged for _, judged in rights)
    if total:
        print(f"root cause {sum(r for r, _ in rights) / total:.1%}, mechanism "
              f"{sum(r for r, _ in mechanisms) / total:.1%} of {total} incidents")  # fmt: skip
    print(f"diagnosis of 100,000 requests: {np.median(took):.2f} CPU s")


if __name__ == "__main__":
    main()
