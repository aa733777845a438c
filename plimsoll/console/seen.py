"""What pages are made of: everything that was read, as values. A part that is not read yet is None."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from plimsoll.console.gauges import TierSafe
from plimsoll.console.logreading import Hour
from plimsoll.diagnosis.findings import Findings
from plimsoll.ledger.assessment import Row
from plimsoll.policy.policy import Policy
from plimsoll.storage.chronicle import JournalEntry


class Seen(Struct, frozen=True):
    """One moment. `reasons` counts, by (tenant, outcome, reason), requests of the last hour that did not complete."""

    policy: Policy
    hour: Hour | None = None
    safe: tuple[TierSafe, ...] | None = None
    findings: Findings | None = None
    budgets: tuple[Row, ...] | None = None
    entries: tuple[JournalEntry, ...] = ()
    reasons: Mapping[tuple[str, str, str], int] = {}
    snapshot: Mapping[str, Any] | None = None  # the gateway's `/admin/snapshot`
    num_ended: int | None = None  # requests that ended in the last hour and since; None where nobody writes any
