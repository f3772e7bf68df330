# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Due times and leases of controllers, and the rights of resource-controller on them."""

from datarecs_postgres.migrate import run_sql_file

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_sql_file("0016_resource_work.sql")
    run_sql_file("0016_access.sql")


def downgrade() -> None:
    run_sql_file("0016_down.sql")
