# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""A run stores the reason that its trigger gave."""

from datarecs_postgres.migrate import run_sql_file

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_sql_file("0008_trigger_reason.sql")
    run_sql_file("0008_access.sql")


def downgrade() -> None:
    run_sql_file("0008_down.sql")
