# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Sinks: what is wished of them, their tasks and leases, and what they committed."""

from datarecs_postgres.migrate import run_sql_file

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    run_sql_file("0028_sinks.sql")
    run_sql_file("0028_access.sql")


def downgrade() -> None:
    run_sql_file("0028_down.sql")
