"""The ledger's tables. `migrations/` brings a database to them; a test holds the two together."""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table

METADATA: Final = MetaData()

positions: Final = Table(
    "positions",
    METADATA,
    Column("log", String(32), primary_key=True),  # identity of a data directory's log
    Column("reached", BigInteger, nullable=False),  # the log is posted up to this offset
)

entries: Final = Table(
    "entries",
    METADATA,
    # The idempotency key: log, offset at which the batch begins, number in it.
    Column("log", String(32), primary_key=True),
    Column("batch", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("origin", String(8), nullable=False),  # "row": from the log; "grant": computed from judged events
    Column("kind", String(16), nullable=False),
    Column("source", String, nullable=False),
    Column("target", String, nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("period", String(7), nullable=False),
    Column("minute", BigInteger, nullable=False),  # UTC epoch s ÷ 60; 0: a grant, of no instant
    Index("entries_by_period", "period", "minute"),
)

balances: Final = Table(
    "balances",
    METADATA,
    Column("account", String, primary_key=True),
    Column("period", String(7), primary_key=True),
    Column("amount", BigInteger, nullable=False),
)

judged: Final = Table(
    "judged",
    METADATA,
    Column("log", String(32), primary_key=True),
    Column("tenant", String, primary_key=True),
    Column("objective", String, primary_key=True),
    Column("tier", String, primary_key=True),
    Column("policy", String, primary_key=True),
    Column("period", String(7), primary_key=True),
    Column("num_good", BigInteger, nullable=False),
    Column("num_bad", BigInteger, nullable=False),
)

granted: Final = Table(
    "granted",
    METADATA,
    Column("tenant", String, primary_key=True),
    Column("objective", String, primary_key=True),
    Column("period", String(7), primary_key=True),
    Column("bucket", BigInteger, nullable=False),
    Column("part", BigInteger, nullable=False),
)

policies: Final = Table(
    "policies",
    METADATA,
    Column("version", String, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
