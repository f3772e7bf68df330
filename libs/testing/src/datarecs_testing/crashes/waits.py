"""End the leases of a killed process, and the pauses after them, immediately.

The database's clock decides about leases, so a test moves the stored times back as if that time had
passed. Only leases of processes that have certainly ended are changed: live processes would be
fenced, which is another test.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import LiteralString

from psycopg.errors import DeadlockDetected

from datarecs_testing.database import PreparedDatabase

_LEASES: LiteralString = """
    UPDATE run_lease SET lease_until = now() - interval '6 seconds'
        WHERE split_part(lease_owner, '/', 2) = %(pid)s;
    UPDATE relay_shard SET lease_until = now() WHERE split_part(owner, '/', 2) = %(pid)s;
    DELETE FROM relay_owner WHERE split_part(owner, '/', 2) = %(pid)s;
    UPDATE email_delivery SET lease_until = now(), due_at = now(), claimed_until = NULL
        WHERE split_part(lease_owner, '/', 2) = %(pid)s AND state = 'SENDING';
    UPDATE webhook_delivery SET lease_until = now()
        WHERE split_part(lease_owner, '/', 2) = %(pid)s AND state = 'LEASED';
"""
_PAUSES: LiteralString = """
    UPDATE run SET next_reconcile_at = now() WHERE next_reconcile_at > now();
    UPDATE run_lease SET due_at = now()
        WHERE lease_owner IS NULL AND due_at > now() AND due_at < '9000-01-01';
    UPDATE run_timer SET claimed_until = NULL WHERE claimed_until > now();
    UPDATE email_delivery SET due_at = now() WHERE state <> 'SENDING' AND due_at > now();
    UPDATE email_delivery SET claimed_until = NULL
        WHERE state <> 'SENDING' AND claimed_until > now();
    UPDATE webhook_delivery SET due_at = now() WHERE state = 'PENDING' AND due_at > now();
    UPDATE webhook_endpoint_state SET next_claim_at = now(), paused_until = NULL
        WHERE next_claim_at > now();
"""


def end_leases(database: PreparedDatabase, pid: int) -> None:
    """Release all leases of the dead process for others; owners begin with `host/pid`."""
    _each(database, _LEASES, {"pid": str(pid)})


def end_pauses(database: PreparedDatabase) -> None:
    """Make waiting items due; leased items are not changed."""
    is_over = False
    while not is_over:
        # Rows are locked in no order here, and services lock them in theirs.
        with suppress(DeadlockDetected):
            _each(database, _PAUSES, {})
            is_over = True


def make_timers_due(database: PreparedDatabase, *reasons: str) -> int:
    """Make timers of these reasons due; return their number."""
    with database.connect() as connection:
        return connection.execute(
            "UPDATE datarecs.run_timer SET due_at = now() WHERE reason = ANY(%s)", (list(reasons),)
        ).rowcount


def _each(database: PreparedDatabase, statements: LiteralString, values: Mapping[str, str]) -> None:
    """One commit each, so that no two tables are locked at once."""
    with database.connect() as connection:
        connection.execute("SET search_path = datarecs")
        for statement in statements.split(";\n")[:-1]:
            connection.execute(statement, values)
