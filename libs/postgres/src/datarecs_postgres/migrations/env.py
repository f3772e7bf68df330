# ruff: noqa: INP001 - alembic loads this file by its path; it is no part of the package
"""Runs migrations on the connection that `datarecs_postgres.migrate` opened; alembic loads it."""

from alembic import context

from datarecs_postgres.tables.metadata import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema=SCHEMA,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
