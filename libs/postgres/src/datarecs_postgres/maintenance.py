"""Partitions of the next days and what is past its time; called hourly by run-controller."""

from collections.abc import Mapping

from sqlalchemy import func, select

from datarecs_application.errors import StoreBusyError
from datarecs_postgres.database import Database


def set_outbox_retention(database: Database, *, days: int) -> None:
    """Retain sent events so many days from the next maintenance on. Safe to repeat.

    Args:
        database: of the login datarecs_controller.
        days: below the days that marks of received events are kept.
    """
    database.call(select(func.datarecs.keep_outbox(days)))


def divide_outbox(database: Database, *, shards: int) -> None:
    """Divide the outbox into so many shards, from 1 to 256. Safe to repeat.

    Args:
        database: of the login datarecs_controller.
        shards: as many in every replica, else they take turns.

    Raises:
        StoreBusyError: an event is not sent yet, and its key may not be in two shards.
    """
    ((is_done,),) = database.call(select(func.datarecs.divide_outbox(shards)))
    if not is_done:
        raise StoreBusyError(cause="the outbox is divided anew when every event is sent")


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
