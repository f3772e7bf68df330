"""The sweep for executions that nobody waits for: their run has ended or does not exist (spec 11).

A lost answer of the backend or a restored database can leave one. Separate from the launching loop,
which knows runs and not executions.
"""

from collections.abc import Sequence
from itertools import groupby

import structlog

from datarecs_application.ports.execution import LiveExecution, RemoteLauncher, Unavailable
from datarecs_application.ports.state import UnitOfWork
from datarecs_core.values import TenantId

log = structlog.get_logger()


def stop_orphans(unit: UnitOfWork, remote: RemoteLauncher) -> int:
    """Stop every live execution without a run that wants it; how many there were.

    Executions are listed before runs are read, and a run is committed before its execution is
    created, so a new execution is never taken for an orphan.
    """
    live = remote.live()
    if isinstance(live, Unavailable):
        log.warning("backend_unavailable", step="SWEEP", reason=live.reason)
        return 0
    orphans = 0
    by_tenant = sorted(live, key=lambda one: one.tenant_id)
    for tenant, executions in groupby(by_tenant, key=lambda one: one.tenant_id):
        for orphan in _without_run(unit, tenant, list(executions)):
            orphans += 1
            log.warning(
                "orphan_stopped",
                tenant_id=str(tenant),
                run_id=str(orphan.run_id),
                execution=orphan.name,
            )
            remote.stop(orphan.name, force=False)
    return orphans


def _without_run(
    unit: UnitOfWork, tenant: TenantId, executions: Sequence[LiveExecution]
) -> list[LiveExecution]:
    orphans = []
    with unit.begin(tenant, read_only=True) as tx:
        for execution in executions:
            run = tx.runs.get(execution.run_id)
            if run is None or run.status.is_terminal or run.execution_name != execution.name:
                orphans.append(execution)
    return orphans
