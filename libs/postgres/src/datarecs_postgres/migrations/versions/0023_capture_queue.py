# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""The queue of captures."""

from datarecs_postgres.migrate import run_sql_file

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    run_sql_file("0023_capture_queue.sql")
    run_sql_file("0023_access.sql")


def downgrade() -> None:
    run_sql_file("0023_down.sql")
