# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Pointers of the catalogue."""

from datarecs_postgres.migrate import run_sql_file

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    run_sql_file("0022_pointers.sql")
    run_sql_file("0022_access.sql")


def downgrade() -> None:
    run_sql_file("0022_down.sql")
