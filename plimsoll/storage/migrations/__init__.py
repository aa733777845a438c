"""Alembic migrations of the ledger. Revisions are numbered: "0001" is the first schema."""
