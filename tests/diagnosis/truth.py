"""The step-by-step engine with a stop watch: what each request's time really went into, by the definitions of `parts`.

It sees what no live operation sees (every step's members), and is used in tests only.
"""

from collections import defaultdict
from fractions import Fraction

import numpy as np

from plimsoll.diagnosis.timeparts import COLUMN, PARTS, Part
from plimsoll.diagnosis.visits import FIELDS, Floats, Visits
from plimsoll.engine.profile import EngineProfile
from tests.sim.reference import ReferenceReplica, Request


class WatchedReplica(ReferenceReplica):
    """Notes for every step who was in it, who waited and why."""

    def __init__(self, profile: EngineProfile) -> None:
        super().__init__(profile)
        self.spent: dict[int, dict[Part, float]] = defaultdict(lambda: dict.fromkeys(PARTS, 0.0))
        self.begun: dict[int, float] = {}
        self.before: dict[int, float] = defaultdict(float)  # s waited for blocks before its first step

    def duration(self, members: list[Request]) -> float:
        took = super().duration(members)
        decoding = [r for r in members if r.decoding]
        prompts = [r for r in members if not r.decoding]
        alone = super().duration(decoding) if decoding and prompts else took
        for request in decoding:
            self.spent[request.id][Part.DECODE] += alone
            self.spent[request.id][Part.OTHERS_PREFILL] += took - alone
        for request in prompts:
            if request.preemptions:
                self.spent[request.id][Part.KV_PRESSURE] += took
                continue
            self.begun.setdefault(request.id, float(self.now))
            own = took if len(prompts) == 1 else super().duration([*decoding, request])
            self.spent[request.id][Part.OWN_PREFILL] += own
            self.spent[request.id][Part.OTHERS_PREFILL] += took - own
        room = self.profile.max_batched_tokens - sum(r.chunk for r in members)
        blocked = room > 0 and len(self.running) < self.profile.max_num_seqs
        for request in self.waiting:
            if request.id in self.begun:  # preempted
                self.spent[request.id][Part.KV_PRESSURE] += took
            elif blocked:
                self.before[request.id] += took
        return took

    def parts(self, request: Request) -> Floats:
        """Seconds by part of a request that has finished; they sum to arrival → last token."""
        spent = self.spent[request.id]
        waited = self.begun[request.id] - float(request.arrival)
        blocked = min(waited, self.before[request.id])
        by_part = spent | {
            Part.ENGINE_QUEUE: waited - blocked,
            Part.KV_PRESSURE: spent[Part.KV_PRESSURE] + blocked,
        }
        return np.array([by_part[part] for part in PARTS])


def visits_of_requests(requests: list[Request], tenants: list[str], delay: Floats | float = 0.0) -> Visits:
    """What a gateway would have written of them, each having been dispatched `delay` s after it arrived there."""
    offset = 1.7e9
    columns: dict[str, list[object]] = {name: [None] * len(requests) for name in (*FIELDS, "broke")}
    delays = np.broadcast_to(np.asarray(delay, float), (len(requests),))
    for i, request in enumerate(requests):
        first, last = float(request.tokens_at[0]), float(request.tokens_at[-1])
        gaps = np.diff([float(at) for at in request.tokens_at])
        arrived = float(request.arrival) - delays[i]
        row = {
            "request_id": request.id, "tenant": tenants[i], "tier": "gold", "pool": "chat", "replica": "r1",
            "outcome": "completed", "arrived_at": offset + arrived,
            "dispatched_at": offset + float(request.arrival), "first_token_at": offset + first,
            "finished_at": offset + last, "ttft": first - arrived, "e2e": last - arrived,
            "tpot": (last - first) / len(gaps) if len(gaps) else None, "itl_max": gaps.max() if len(gaps) else None,
            "client_stall": 0.0, "prompt_tokens": request.prompt, "cached_tokens": request.cached,
            "output_tokens": request.output, "kv_blocks_reserved": 0, "policy_version": "v1", "broke": False,
        }  # fmt: skip
        for name, value in row.items():
            columns[name][i] = value
    return Visits(columns)


def requests_of(arrivals: Floats, prompts: Floats, outputs: Floats) -> list[Request]:
    """Requests of these lengths at these instants."""
    return [
        Request(i, Fraction(float(at)), int(p), int(o))
        for i, (at, p, o) in enumerate(zip(arrivals, prompts, outputs, strict=True))
    ]


def errors(found: Floats, true: Floats, e2e: Floats) -> dict[Part, tuple[int, float]]:
    """By part: requests in which it is ≥ 5 % of E2E in truth or estimate, and their median |error| ÷ E2E."""
    result = {}
    for part in PARTS:
        a, b = found[:, COLUMN[part]], true[:, COLUMN[part]]
        matters = np.maximum(a, b) >= 0.05 * e2e
        error = np.abs(a - b)[matters] / e2e[matters]
        result[part] = (int(matters.sum()), float(np.median(error)) if error.size else 0.0)
    return result
