"""Partitions of the next days and what is past its time; called hourly by run-controller."""

from collections.abc import Mapping

from sqlalchemy import func, select

from datarecs_postgres.database import Database


def keep_outbox(database: Database, *, days: int) -> None:
    """Keep sent events so many days from the next maintenance on. Safe to repeat.

    Args:
        database: of the login datarecs_controller.
        days: below the days that marks of received events are kept.
    """
    database.call(select(func.datarecs.keep_outbox(days)))


def maintain_partitions(database: Database) -> Mapping[str, int]:
    """Make a week of partitions ahead, drop what retention allows, forget old inbox marks.

    Safe to repeat and from several replicas: of two at once one does nothing.

    Args:
        database: of the login datarecs_controller.

    Returns:
        Rows in the DEFAULT partition by table; above 0 alerts. Empty when another was at it.
    """
    made = func.datarecs.maintain_partitions().table_valued("partitioned_table", "default_rows")
    return {row.partitioned_table: row.default_rows for row in database.call(select(made))}
