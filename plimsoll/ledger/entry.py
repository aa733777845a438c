"""One entry of the books: an amount moved from one account to another, so that all accounts sum to zero (law 2)."""

from enum import StrEnum

from msgspec import Struct


class EntryKind(StrEnum):
    """Why an amount moved."""

    GRANT = "grant"
    SPEND = "spend"
    LOAN = "loan"
    RECALL = "recall"
    RETURN = "return"
    EXPIRE = "expire"
    CONVERT = "convert"
    CORRECT = "correct"


class Entry(Struct, frozen=True, gc=False, array_like=True):
    """`amount` (> 0, integer events or tokens) leaves account `source` and enters account `target`.

    Accounts are named `<owner>/<objective>/<name>`: owner is a tenant, `pool` or `world`; name is `bucket`, `part`,
    `headroom`, `overdraft`, or `spent:<charge>`. A spend moves from `acme/ttft/bucket` to `acme/ttft/spent:ours`.
    The idempotency key of a request's entry is (request_id, position in its Settle); batches carry their own key.
    """

    kind: EntryKind
    source: str
    target: str
    amount: int
    period: str  # calendar month of the request's arrival in its zone, "2026-11"
