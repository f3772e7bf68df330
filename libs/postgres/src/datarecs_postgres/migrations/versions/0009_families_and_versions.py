# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""A key knows the key it was made with; an object counts its own writes."""

from datarecs_postgres.migrate import run_sql_file

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    run_sql_file("0009_families_and_versions.sql")
    run_sql_file("0009_access.sql")


def downgrade() -> None:
    run_sql_file("0009_down.sql")
