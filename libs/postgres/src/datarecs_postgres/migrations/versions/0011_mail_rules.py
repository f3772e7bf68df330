# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Digests, notices, unsubscribing, suppression and revoked report links."""

from datarecs_postgres.migrate import run_sql_file

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    run_sql_file("0011_mail_rules.sql")
    run_sql_file("0011_access.sql")


def downgrade() -> None:
    run_sql_file("0011_down.sql")
