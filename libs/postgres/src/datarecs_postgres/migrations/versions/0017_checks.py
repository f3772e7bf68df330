# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Checks of connections and jobs against their sources."""

from datarecs_postgres.migrate import run_sql_file

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_sql_file("0017_checks.sql")
    run_sql_file("0017_access.sql")


def downgrade() -> None:
    run_sql_file("0017_down.sql")
