# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""A renewal of a lease touches its row alone."""

from datarecs_postgres.migrate import run_sql_file

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_sql_file("0007_hot_renewals.sql")


def downgrade() -> None:
    run_sql_file("0007_down.sql")
