# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Claims of the work of one tenant, for workers that are bound to it."""

from datarecs_postgres.migrate import run_sql_file

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    run_sql_file("0025_claims_of_a_tenant.sql")
    run_sql_file("0025_access.sql")


def downgrade() -> None:
    run_sql_file("0025_down.sql")
