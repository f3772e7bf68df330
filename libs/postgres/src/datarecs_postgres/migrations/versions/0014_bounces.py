# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Addresses that get no mail for a while, and the temporary refusals that lead to it."""

from datarecs_postgres.migrate import run_sql_file

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_sql_file("0014_bounces.sql")
    run_sql_file("0014_access.sql")


def downgrade() -> None:
    run_sql_file("0014_down.sql")
