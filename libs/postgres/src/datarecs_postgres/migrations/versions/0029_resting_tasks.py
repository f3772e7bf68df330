# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Tasks of paused sinks end until the sink goes on, and halted tasks are counted."""

from datarecs_postgres.migrate import run_sql_file

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    run_sql_file("0029_resting_tasks.sql")
    run_sql_file("0029_access.sql")


def downgrade() -> None:
    run_sql_file("0029_down.sql")
