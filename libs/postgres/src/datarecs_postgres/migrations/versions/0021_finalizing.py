# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Deleted connections that wait for their jobs, and figures of running services."""

from datarecs_postgres.migrate import run_sql_file

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    run_sql_file("0021_finalizing.sql")
    run_sql_file("0021_access.sql")


def downgrade() -> None:
    run_sql_file("0021_down.sql")
