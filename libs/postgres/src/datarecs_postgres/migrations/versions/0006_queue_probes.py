# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""A lease costs a few probes of an index; the outbox has the shards that the setting names."""

from datarecs_postgres.migrate import run_sql_file

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_sql_file("0006_queue_probes.sql")
    run_sql_file("0006_access.sql")


def downgrade() -> None:
    run_sql_file("0006_down.sql")
