"""Budgets: exceptions, censored and judged requests; recent traffic; decisions; the states last told."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

KEY = ("tenant", "objective", "tier", "policy", "period")


def upgrade() -> None:
    """The judged events get a further key, so that their table is made anew; the rest are new tables."""
    op.rename_table("judged", "judged_before")
    op.create_table(
        "judged",
        sa.Column("log", sa.String(32), primary_key=True),
        *(sa.Column(name, sa.String(7) if name == "period" else sa.String, primary_key=True) for name in KEY),
        sa.Column("exception", sa.String, primary_key=True),
        *(sa.Column(f"num_{what}", sa.BigInteger, nullable=False) for what in ("good", "bad", "censored", "requests")),
    )
    kept = f"log, {', '.join(KEY)}"
    op.execute(
        f"INSERT INTO judged (log, {', '.join(KEY)}, exception, num_good, num_bad, num_censored, num_requests) "
        f"SELECT {kept}, '', num_good, num_bad, 0, num_good + num_bad FROM judged_before"
    )
    op.drop_table("judged_before")
    for name, unit in (("minutes", "minute"), ("hours", "hour")):
        op.create_table(
            name,
            sa.Column("log", sa.String(32), primary_key=True),
            sa.Column("tenant", sa.String, primary_key=True),
            sa.Column("objective", sa.String, primary_key=True),
            sa.Column(unit, sa.BigInteger, primary_key=True),
            sa.Column("num_good", sa.BigInteger, nullable=False),
            sa.Column("num_bad", sa.BigInteger, nullable=False),
        )
        op.create_index(f"{name}_by_time", name, [unit])
    op.create_table(
        "decisions",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("log", sa.String(32), nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("decisions_by_kind", "decisions", ["kind", "at"])
    op.create_table(
        "states",
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("objective", sa.String, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
