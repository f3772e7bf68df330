"""Launcher backend `queue`: submitting a run inserts a row in the same transaction (spec 8).

Workers lease this row; there is no other call, so no answer can be lost.
"""

from collections.abc import Mapping, Sequence

from datarecs_application.ports.execution import (
    Accepted,
    Gone,
    Observation,
    Pending,
    Running,
    Stopping,
)
from datarecs_application.ports.state import Transaction
from datarecs_core.runs.model import Run


class QueueLauncher:
    """Port Launcher."""

    def ensure_running(self, tx: Transaction, run: Run) -> Accepted:
        tx.leases.submit(run)
        return Accepted()

    def ensure_stopped(self, tx: Transaction, run: Run) -> Gone | Stopping:
        """A waiting lease is removed; the owner of a held one reads the wish at its heartbeat."""
        lease = tx.leases.get(run.run_id)
        if lease is not None and lease.lease_owner is not None:
            tx.wake()
            return Stopping()
        tx.leases.end(run.run_id)
        return Gone()

    def observe(self, tx: Transaction, runs: Sequence[Run]) -> Mapping[str, Observation]:
        return {run.execution_name: _observed(tx, run) for run in runs}


def _observed(tx: Transaction, run: Run) -> Observation:
    lease = tx.leases.get(run.run_id)
    if lease is None:
        return Gone()
    return Pending() if lease.lease_owner is None else Running()
