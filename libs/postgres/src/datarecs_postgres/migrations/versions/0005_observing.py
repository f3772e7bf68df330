# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""How much waits, in numbers over all tenants."""

from datarecs_postgres.migrate import run_sql_file

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_sql_file("0005_observing.sql")
    run_sql_file("0005_access.sql")


def downgrade() -> None:
    run_sql_file("0005_down.sql")
