# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Webhook deliveries and the mail queue."""

from datarecs_postgres.migrate import run_sql_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_sql_file("0002_delivery.sql")
    run_sql_file("0002_access.sql")


def downgrade() -> None:
    run_sql_file("0002_down.sql")
