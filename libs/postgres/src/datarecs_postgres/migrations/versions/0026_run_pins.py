# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""The rights of runs on the catalogue: they read it, and pin what they read."""

from datarecs_postgres.migrate import run_sql_file

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    run_sql_file("0026_access.sql")


def downgrade() -> None:
    run_sql_file("0026_down.sql")
