# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Events of captures: their numbers, and who may append them."""

from datarecs_postgres.migrate import run_sql_file

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    run_sql_file("0024_capture_events.sql")
    run_sql_file("0024_access.sql")


def downgrade() -> None:
    run_sql_file("0024_down.sql")
