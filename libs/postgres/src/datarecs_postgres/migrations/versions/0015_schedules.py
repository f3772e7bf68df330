# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Schedules and the rights of resource-controller, which decides them."""

from datarecs_postgres.migrate import run_sql_file

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_sql_file("0015_schedules.sql")
    run_sql_file("0015_access.sql")


def downgrade() -> None:
    run_sql_file("0015_down.sql")
