"""The ledger's tables. `migrations/` brings a database to them; a test holds the two together."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table

METADATA: Final = MetaData()

positions: Final = Table(
    "positions",
    METADATA,
    Column("log", String(32), primary_key=True),  # identity of a data directory's log
    Column("reached", BigInteger, nullable=False),  # the log is posted up to this offset
    Column("policy", String, nullable=False, server_default=""),  # version that was in force there; "": none
)

entries: Final = Table(
    "entries",
    METADATA,
    # The idempotency key: log, offset at which the batch begins, number in it.
    Column("log", String(32), primary_key=True),
    Column("batch", BigInteger, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("origin", String(8), nullable=False),  # "row": settled; "grant": of judged events; "decision"
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
    Column("exception", String, primary_key=True),  # kind of the window of exception; "": none
    Column("num_good", BigInteger, nullable=False),
    Column("num_bad", BigInteger, nullable=False),
    Column("num_censored", BigInteger, nullable=False),  # requests
    Column("num_requests", BigInteger, nullable=False),  # with at least one judged event
)

minutes: Final = Table(
    "minutes",
    METADATA,
    Column("log", String(32), primary_key=True),
    Column("tenant", String, primary_key=True),
    Column("objective", String, primary_key=True),
    Column("minute", BigInteger, primary_key=True),  # in which requests ended, UTC epoch s ÷ 60; the last hours only
    Column("num_good", BigInteger, nullable=False),
    Column("num_bad", BigInteger, nullable=False),
    Index("minutes_by_time", "minute"),
)

hours: Final = Table(
    "hours",
    METADATA,
    Column("log", String(32), primary_key=True),
    Column("tenant", String, primary_key=True),
    Column("objective", String, primary_key=True),
    Column("hour", BigInteger, primary_key=True),  # as above, UTC epoch s ÷ 3600; for as long as the books
    Column("num_good", BigInteger, nullable=False),
    Column("num_bad", BigInteger, nullable=False),
    Index("hours_by_time", "hour"),
)

decisions: Final = Table(
    "decisions",
    METADATA,
    Column("key", String, primary_key=True),  # ours: what is journaled twice counts once
    Column("log", String(32), nullable=False),  # that brought it first
    Column("at", Float, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("data", LargeBinary, nullable=False),  # msgpack: the evidence
    Index("decisions_by_kind", "kind", "at"),
)

states: Final = Table(
    "states",
    METADATA,
    Column("tenant", String, primary_key=True),
    Column("objective", String, primary_key=True),
    Column("data", LargeBinary, nullable=False),  # msgpack: what `plimsoll budget status` shows, as of its instant
)

turns: Final = Table(
    "turns",
    METADATA,
    # Requests of agents' runs that were not over where the log is posted to.
    Column("log", String(32), primary_key=True),
    Column("tenant", String, primary_key=True),
    Column("session", String, primary_key=True),
    Column("request_id", BigInteger, primary_key=True),
    Column("policy", String, nullable=False),  # version by which it was judged; "": still under way
    Column("data", LargeBinary, nullable=False),  # msgpack: `slo.runs.Turn`
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
