# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Claims of captures plan their queries once, and a key is freed by one function."""

from datarecs_postgres.migrate import run_sql_file

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    run_sql_file("0027_claim_plans.sql")
    run_sql_file("0027_access.sql")


def downgrade() -> None:
    run_sql_file("0027_down.sql")
