# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Claims of schedules and leases of objects that last 12 s."""

from datarecs_postgres.migrate import run_sql_file

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    run_sql_file("0020_short_leases.sql")


def downgrade() -> None:
    run_sql_file("0020_down.sql")
