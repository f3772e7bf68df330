"""A process that expands actions three events at a time and kills itself within a transaction.

Apart from the test, because it runs as a separate program.
"""

import os
import signal
import sys

import datarecs_application.webhook_actions as actions
from datarecs_application.loops.webhook_expanding import WebhookExpanding
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.webhooks.actions import WebhookAction
from datarecs_events.endpoint_tests import make_test
from datarecs_postgres.database import Database
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.deliveries import read_endpoint
from datarecs_testing.metrics import RecordedMetrics

MESSAGES_A_CHUNK = 3


class Doomed(actions.Expanding):
    """Expands, and dies with everything written, before the commit."""

    def expand(self, tx: Transaction, action: WebhookAction) -> WebhookAction:
        after = super().expand(tx, action)
        if action.made >= LIMIT[0]:
            tx.deliveries.waiting(action.endpoint_uid)
            os.kill(os.getpid(), signal.SIGKILL)
        return after


LIMIT = [0]


def child(url: str, commits: int) -> None:
    """Commit so many chunks, then die in the next one."""
    vars(actions)["CHUNK"] = MESSAGES_A_CHUNK
    LIMIT[0] = commits * MESSAGES_A_CHUNK
    database, ids = Database(url), UuidV7Ids()
    loop = WebhookExpanding(
        PostgresWorkFinder(database),
        PostgresUnitOfWork(database, ids),
        Doomed(specs=StoredSpecs(read_endpoint), ids=ids, make_test=make_test),
        metrics=RecordedMetrics(),
        clock=SystemClock(),
    )
    while loop.turn():
        pass


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]))
