# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Repair of delivery: events a group never heard, and how long events are remembered."""

from datarecs_postgres.migrate import run_sql_file

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_sql_file("0003_delivery_repair.sql")
    run_sql_file("0003_access.sql")


def downgrade() -> None:
    run_sql_file("0003_down.sql")
