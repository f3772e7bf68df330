# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""The first schema, its rights, its functions."""

from datarecs_postgres.migrate import run_sql_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql_file("0001_initial.sql")
    run_sql_file("0001_access.sql")


def downgrade() -> None:
    run_sql_file("0001_down.sql")
