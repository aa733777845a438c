"""The books: positions, entries, balances, judged events, grants, policies."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "positions",
        sa.Column("log", sa.String(32), primary_key=True),
        sa.Column("reached", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "entries",
        sa.Column("log", sa.String(32), primary_key=True),
        sa.Column("batch", sa.BigInteger, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("origin", sa.String(8), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("source", sa.String, nullable=False),
        sa.Column("target", sa.String, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("period", sa.String(7), nullable=False),
        sa.Column("minute", sa.BigInteger, nullable=False),
    )
    op.create_index("entries_by_period", "entries", ["period", "minute"])
    op.create_table(
        "balances",
        sa.Column("account", sa.String, primary_key=True),
        sa.Column("period", sa.String(7), primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "judged",
        *(sa.Column(name, sa.String(32) if name == "log" else sa.String, primary_key=True) for name in JUDGED_BY),
        sa.Column("period", sa.String(7), primary_key=True),
        sa.Column("num_good", sa.BigInteger, nullable=False),
        sa.Column("num_bad", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "granted",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("objective", sa.String, primary_key=True),
        sa.Column("period", sa.String(7), primary_key=True),
        sa.Column("bucket", sa.BigInteger, nullable=False),
        sa.Column("part", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "policies",
        sa.Column("version", sa.String, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


JUDGED_BY = ("log", "tenant", "objective", "tier", "policy")
