# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Users test, resend, recover and replay webhook deliveries."""

from datarecs_postgres.migrate import run_sql_file

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    run_sql_file("0010_webhook_actions.sql")
    run_sql_file("0010_access.sql")


def downgrade() -> None:
    run_sql_file("0010_down.sql")
