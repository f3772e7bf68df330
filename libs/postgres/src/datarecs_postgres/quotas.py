"""Counts of a tenant under a lock, so that two concurrent calls cannot both pass the limit."""

from typing import Any

from sqlalchemy import BindParameter, bindparam, func, select, text

from datarecs_application.ports.quotas import WaitingRuns
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunStatus
from datarecs_core.values import JobId
from datarecs_postgres.session import Session
from datarecs_postgres.tables.captures import CAPTURE_WORK, OPEN_ROOT
from datarecs_postgres.tables.resources import RESOURCE
from datarecs_postgres.tables.runs import RUN, RUN_TIMER

_LOCK = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("name"), 0)))
_TENANT: BindParameter[Any] = bindparam("of_tenant")
# A run has a timer until it is terminal, so the history is never read.
_OPEN = select(RUN_TIMER.c.run_id).where(RUN_TIMER.c.tenant_id == _TENANT)
_WAITING = (
    select(
        func.count().filter(RUN.c.job_id == bindparam("of_job")).label("of_job"),
        func.count().label("of_tenant"),
    )
    .select_from(RUN)
    .where(
        RUN.c.tenant_id == _TENANT,
        RUN.c.run_id.in_(_OPEN),
        RUN.c.status.in_([RunStatus.TRIGGERED.value, RunStatus.QUEUED.value]),
    )
)


class PostgresQuotas:
    """Port Quotas. Each statement sees earlier commits, so the lock comes first."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def waiting_runs(self, job_id: JobId) -> WaitingRuns:
        self._lock()
        parameters = {"of_tenant": self._session.tenant_id, "of_job": job_id}
        row = self._session.execute(_WAITING, parameters).one()
        return WaitingRuns(of_job=row.of_job, of_tenant=row.of_tenant)

    def open_captures(self) -> int:
        self._lock()
        counted = (
            select(func.count())
            .select_from(CAPTURE_WORK)
            .where(self._session.tenant_rows(CAPTURE_WORK), text(OPEN_ROOT))
        )
        return int(self._session.execute(counted).scalar_one())

    def resources(self, kind: Kind) -> int:
        self._lock()
        counted = (
            select(func.count())
            .select_from(RESOURCE)
            .where(self._session.tenant_rows(RESOURCE), RESOURCE.c.kind == kind.value)
        )
        return int(self._session.execute(counted).scalar_one())

    def _lock(self) -> None:
        self._session.execute(_LOCK, {"name": f"datarecs quotas of {self._session.tenant_id}"})
