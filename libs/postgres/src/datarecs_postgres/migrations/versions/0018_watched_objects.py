# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""The change feed stores the object after each write, for watchers."""

from datarecs_postgres.migrate import run_sql_file

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    run_sql_file("0018_watched_objects.sql")


def downgrade() -> None:
    run_sql_file("0018_down.sql")
