# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Sweeps of retention policies, and what resource-controller may remove."""

from datarecs_postgres.migrate import run_sql_file

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    run_sql_file("0019_retention.sql")
    run_sql_file("0019_access.sql")


def downgrade() -> None:
    run_sql_file("0019_down.sql")
