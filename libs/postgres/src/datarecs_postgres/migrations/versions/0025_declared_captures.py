# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Declared captures: their events, and the right of the resource-controller to start them."""

from datarecs_postgres.migrate import run_sql_file

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_sql_file("0025_access.sql")


def downgrade() -> None:
    run_sql_file("0025_down.sql")
