# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Webhook endpoints filter by data, request consent, and keep the order of runs."""

from datarecs_postgres.migrate import run_sql_file

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    run_sql_file("0012_webhook_endpoints.sql")
    run_sql_file("0012_access.sql")


def downgrade() -> None:
    run_sql_file("0012_down.sql")
