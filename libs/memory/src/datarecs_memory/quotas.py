"""Twin of the counts behind quotas. Transactions run one after another, so each count is exact."""

from datarecs_application.ports.quotas import WaitingRuns
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunStatus
from datarecs_core.values import JobId
from datarecs_memory.captures import OPEN
from datarecs_memory.scope import Scope

WAITING = frozenset({RunStatus.TRIGGERED, RunStatus.QUEUED})


class MemoryQuotas:
    """Port Quotas."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def waiting_runs(self, job_id: JobId) -> WaitingRuns:
        waiting = [run for run in self._scope.state.runs.values() if run.status in WAITING]
        of_job = [run for run in waiting if run.job_id == job_id]
        return WaitingRuns(of_job=len(of_job), of_tenant=len(waiting))

    def open_captures(self) -> int:
        items = self._scope.state.captures.items.values()
        return sum(one.parent_id is None and one.state in OPEN for one in items)

    def resources(self, kind: Kind) -> int:
        return sum(one.kind is kind for one in self._scope.state.resources.values())
