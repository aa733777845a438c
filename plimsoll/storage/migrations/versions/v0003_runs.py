"""Runs of agents: their turns while they last, and the policy in force where a log is posted to."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """A column and a table."""
    op.add_column("positions", sa.Column("policy", sa.String, nullable=False, server_default=""))
    op.create_table(
        "turns",
        sa.Column("log", sa.String(32), primary_key=True),
        sa.Column("tenant", sa.String, primary_key=True),
        sa.Column("session", sa.String, primary_key=True),
        sa.Column("request_id", sa.BigInteger, primary_key=True),
        sa.Column("policy", sa.String, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
