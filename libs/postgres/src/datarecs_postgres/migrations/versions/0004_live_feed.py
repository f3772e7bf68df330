# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""The tenant-wide live feed and tickets for sockets."""

from datarecs_postgres.migrate import run_sql_file

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql_file("0004_live_feed.sql")
    run_sql_file("0004_access.sql")


def downgrade() -> None:
    run_sql_file("0004_down.sql")
