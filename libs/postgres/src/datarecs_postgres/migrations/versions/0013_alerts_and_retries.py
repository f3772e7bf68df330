# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""What endpoints remember of alerts and of their queue, and which run a run retries."""

from datarecs_postgres.migrate import run_sql_file

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_sql_file("0013_alerts_and_retries.sql")
    run_sql_file("0013_access.sql")


def downgrade() -> None:
    run_sql_file("0013_down.sql")
