"""The requests of a window as columns: what live operation knows of each, and nothing that only a simulator knows.

Unknown is NaN for instants and durations, and −1 for counts (law 8): arithmetic on it stays unknown.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from plimsoll.requestlog.record import Record
from plimsoll.slo.outcome import Outcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIELDS: Final = (
    "request_id", "tenant", "tier", "pool", "replica", "outcome", "arrived_at", "dispatched_at", "first_token_at",
    "finished_at", "ttft", "tpot", "e2e", "itl_max", "upstream_time", "client_stall", "prompt_tokens", "cached_tokens",
    "output_tokens", "kv_blocks_reserved", "policy_version", "report_kv_usage", "baseline",
)  # fmt: skip
"""Columns of the request log that a diagnosis reads; beside them it wants `broke`: whether an objective was missed."""


MORE_FIELDS: Final = (
    "reason", "adapter", "prompt_entropy", "engine_rtt", "engine_retransmits", "client_rtt", "client_retransmits",
    "plugin_time",
)  # fmt: skip
"""Columns that it takes where they are there: other tools' logs have none of them."""


class Texts(Struct, frozen=True):
    """A column of few, often repeated texts: `names[codes[i]]` is the i-th."""

    names: tuple[str, ...]
    codes: Ints

    def code(self, name: str) -> int:
        """The code of a text; −1 where no row has it."""
        return self.names.index(name) if name in self.names else -1

    def at(self, index: int) -> str:
        """The text of a row."""
        return self.names[int(self.codes[index])]


class Visits:
    """Rows in order of arrival. `ended_at` is the last token's instant where there is one, else the row's end."""

    def __init__(self, columns: dict[str, Any]) -> None:
        """`columns`: each of FIELDS, and `broke`, as a sequence of equal length, None or NaN where unknown.

        Texts may come as `Texts`.
        """
        order = np.argsort(np.asarray(columns["arrived_at"], np.float64), kind="stable")
        self.num = len(order)
        self.request_id: Ints = np.asarray(columns["request_id"], np.int64)[order]
        self.broke: NDArray[np.bool_] = np.asarray(columns["broke"], bool)[order]
        self.tenant, self.tier = _texts(columns["tenant"], order), _texts(columns["tier"], order)
        self.pool, self.replica = _texts(columns["pool"], order), _texts(columns["replica"], order)
        self.outcome = _texts(columns["outcome"], order)
        self.policy_version = _texts(columns["policy_version"], order)
        self.prompt = _counts(columns["prompt_tokens"], order)
        self.cached = _counts(columns["cached_tokens"], order)
        self.output = _counts(columns["output_tokens"], order)
        self.reserved = _counts(columns["kv_blocks_reserved"], order)
        self.arrived = _floats(columns["arrived_at"], order)
        self.dispatched = _floats(columns["dispatched_at"], order)
        self.first = _floats(columns["first_token_at"], order)
        self.finished = _floats(columns["finished_at"], order)
        self.ttft, self.tpot, self.e2e = (_floats(columns[name], order) for name in ("ttft", "tpot", "e2e"))
        self.baseline = _floats(columns["baseline"], order)  # median TTFT of like requests
        self.itl_max = _floats(columns["itl_max"], order)
        self.upstream = _floats(columns["upstream_time"], order)
        self.client_stall = _floats(columns["client_stall"], order)
        self.report_kv = _floats(columns["report_kv_usage"], order)
        nothing = [None] * self.num
        self.reason = _texts(columns.get("reason", [""] * self.num), order)
        self.adapter = _texts(columns.get("adapter", [""] * self.num), order)
        self.entropy = _floats(columns.get("prompt_entropy", nothing), order)
        self.engine_rtt, self.client_rtt, self.engine_retransmits, self.client_retransmits = (
            _floats(columns.get(name, nothing), order)
            for name in ("engine_rtt", "client_rtt", "engine_retransmits", "client_retransmits")
        )
        self.plugins = _floats(columns.get("plugin_time", nothing), order)  # s that they took, NaN: none were asked
        self.ended = np.where(np.isnan(self.e2e), self.finished, self.arrived + self.e2e)

    @property
    def uncached(self) -> Ints:
        """Prompt tokens that the engine had to compute: all but those in its prefix cache, where it told."""
        return np.maximum(1, self.prompt - np.maximum(0, self.cached))

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Which were answered to the end."""
        done: NDArray[np.bool_] = self.outcome.codes == self.outcome.code(Outcome.COMPLETED)
        return done

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Which an engine, or the way to it, failed: not what we ended, nor what died with the gateway."""
        lost: NDArray[np.bool_] = self.outcome.codes == self.outcome.code(Outcome.FAILED)
        return lost

    @property
    def interrupted(self) -> NDArray[np.bool_]:
        """Which died with the gateway: of these nobody knows whether they were still waiting."""
        died: NDArray[np.bool_] = self.outcome.codes == self.outcome.code(Outcome.INTERRUPTED)
        return died

    def index_of(self, request_id: int) -> int | None:
        """The row of a request."""
        found = np.flatnonzero(self.request_id == request_id)
        return int(found[0]) if found.size else None


def visits_of(records: Iterable[Record]) -> Visits:
    """The same from records, in any order."""
    rows = list(records)
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in (*FIELDS, *MORE_FIELDS)}
    columns["broke"] = [any(verdict.num_bad for verdict in row.verdicts) for row in rows]
    return Visits(columns)


def _floats(values: Any, order: Ints) -> Floats:
    if isinstance(values, list):
        values = [np.nan if value is None else value for value in values]
    return np.asarray(values, np.float64)[order]


def _counts(values: Any, order: Ints) -> Ints:
    if isinstance(values, list):
        values = [-1 if value is None else value for value in values]
    counts = np.asarray(values)
    if counts.dtype.kind == "f":
        counts = np.where(np.isnan(counts), -1.0, counts)
    return counts.astype(np.int64)[order]


def _texts(values: Sequence[Any] | Texts, order: Ints) -> Texts:
    if isinstance(values, Texts):
        return Texts(values.names, values.codes[order])
    seen: dict[str, int] = {}
    found = np.fromiter((seen.setdefault(str(value), len(seen)) for value in values), np.int64, len(values))
    return texts_of(list(seen), found[order])


def texts_of(names: Sequence[str], codes: Ints) -> Texts:
    """Texts in the order of the alphabet, from names that are each there once, in any order."""
    ranked = sorted(range(len(names)), key=names.__getitem__)
    place = np.empty(len(names), np.int64)
    place[ranked] = np.arange(len(names))
    return Texts(tuple([names[index] for index in ranked]), place[codes] if len(names) else codes)
