"""Create partitions of the next days and drop expired ones; called hourly by run-controller."""

from collections.abc import Mapping

from sqlalchemy import func, select

from datarecs_application.errors import StoreBusyError
from datarecs_postgres.database import Database


def set_outbox_retention(database: Database, *, days: int) -> None:
    """Set the retention of sent events in days, from the next maintenance on. Safe to repeat.

    Args:
        database: of the login datarecs_controller.
        days: fewer than the retention of marks of received events.
    """
    database.call(select(func.datarecs.keep_outbox(days)))


def divide_outbox(database: Database, *, shards: int) -> None:
    """Set the number of shards of the outbox, from 1 to 256. Safe to repeat.

    Args:
        database: of the login datarecs_controller.
        shards: the same number in every replica, else replicas overwrite each other.

    Raises:
        StoreBusyError: an event is not sent yet, and its key must not be in two shards.
    """
    ((is_done,),) = database.call(select(func.datarecs.divide_outbox(shards)))
    if not is_done:
        raise StoreBusyError(cause="outbox shards can change only after every event is sent")


def maintain_partitions(database: Database) -> Mapping[str, int]:
    """Create the partitions of the next week, drop expired ones, delete old inbox marks.

    Safe to repeat and from several replicas: of two concurrent calls one does nothing.

    Args:
        database: of the login datarecs_controller.

    Returns:
        Rows in the DEFAULT partition by table; above 0 alerts. Empty if another call is running.
    """
    made = func.datarecs.maintain_partitions().table_valued("partitioned_table", "default_rows")
    return {row.partitioned_table: row.default_rows for row in database.call(select(made))}
