"""Port RemoteLauncher over Argo: create, stop, observe and list Workflows.

Every answer of the API becomes one value of the port. A refusal (4xx) is final, because the same
request gets it again; all others are tried again by the launching loop.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from datarecs_application.ports.execution import (
    Accepted,
    Ended,
    Gone,
    LiveExecution,
    Observation,
    Rejected,
    Stopping,
    Unavailable,
)
from datarecs_argo import workflows
from datarecs_argo.kubernetes import MERGE_PATCH, ApiAnswer, ApiCall, KubernetesApi, NoAnswer
from datarecs_argo.pace import CreationPace
from datarecs_core.runs.model import Run

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Lists carry no spec and no status: a Workflow's nodes can have hundreds of kilobytes."""
PAGE = 500
_NOT_FOUND, _CONFLICT, _EXPIRED = 404, 409, 410


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgoLauncher:
    """Port RemoteLauncher."""

    api: KubernetesApi
    pace: CreationPace
    page: int = PAGE
    """Entries of a page of a list."""

    def wait_before_create(self) -> timedelta:
        return self.pace.take()

    def create(self, run: Run, *, lease_epoch: int) -> Accepted | Rejected | Unavailable:
        """A Workflow of this name with the run's label was created by an earlier call."""
        body = workflows.workflow_of(run, namespace=self.api.namespace, lease_epoch=lease_epoch)
        answer = self.api.call(ApiCall(method="POST", path=self._path(), body=body))
        if isinstance(answer, NoAnswer):
            return Unavailable(answer.why)
        if answer.is_ok:
            return Accepted()
        if answer.status == _CONFLICT and answer.reason == "AlreadyExists":
            return self._of_this_run(run)
        return Rejected(f"Argo did not take workflow {run.execution_name}: {answer.message}")

    def stop(self, name: str, *, force: bool) -> Gone | Stopping | Unavailable:
        """`Stop` runs the exit handler, `Terminate` does not."""
        patch = {"spec": {"shutdown": "Terminate" if force else "Stop"}}
        answer = self.api.call(
            ApiCall(method="PATCH", path=self._path(name), body=patch, content_type=MERGE_PATCH)
        )
        if isinstance(answer, NoAnswer):
            return Unavailable(answer.why)
        if answer.status == _NOT_FOUND:
            return Gone()
        if not answer.is_ok:
            return Unavailable(f"workflow {name} cannot be stopped: {answer.message}")
        has_ended = isinstance(workflows.observed(answer.document), Ended)
        return Gone() if has_ended else Stopping()

    def observe(self, names: Sequence[str]) -> Mapping[str, Observation] | Unavailable:
        """One list of the live Workflows, then those of the names that are not among them."""
        listed = self._listed()
        if isinstance(listed, Unavailable):
            return listed
        live = {workflows.name_of(item): workflows.observed_by_label(item) for item in listed}
        seen: dict[str, Observation] = {}
        for name in names:
            state = live.get(name) or self._observed(name)
            if isinstance(state, Unavailable):
                return state
            seen[name] = state
        return seen

    def live(self) -> Sequence[LiveExecution] | Unavailable:
        listed = self._listed()
        if isinstance(listed, Unavailable):
            return listed
        executions = (workflows.live_execution(item) for item in listed)
        return [one for one in executions if one is not None]

    def _observed(self, name: str) -> Observation | Unavailable:
        answer = self.api.call(ApiCall(method="GET", path=self._path(name)))
        if isinstance(answer, NoAnswer):
            return Unavailable(answer.why)
        if answer.status == _NOT_FOUND:
            return Gone()
        if not answer.is_ok:
            return Unavailable(f"workflow {name} cannot be read: {answer.message}")
        return workflows.observed(answer.document)

    def _of_this_run(self, run: Run) -> Accepted | Rejected | Unavailable:
        name = run.execution_name
        answer = self.api.call(ApiCall(method="GET", path=self._path(name)))
        if isinstance(answer, NoAnswer):
            return Unavailable(answer.why)
        if not answer.is_ok:
            return Unavailable(f"workflow {name} exists and cannot be read: {answer.message}")
        if workflows.run_id_of(answer.document) == str(run.run_id):
            return Accepted()
        return Rejected(
            f"Argo has another workflow of the name {name}, without the label "
            f"{workflows.RUN_LABEL}={run.run_id}; delete it and trigger the run again"
        )

    def _listed(self) -> list[Mapping[str, object]] | Unavailable:
        """Metadata of all Workflows of runs that have not ended, page by page.

        A list that changes for too long loses its place; then it starts again, once.
        """
        for _ in range(2):
            items: list[Mapping[str, object]] = []
            for page in self._pages():
                if isinstance(page, NoAnswer):
                    return Unavailable(page.why)
                if page.status == _EXPIRED:
                    break
                if not page.is_ok:
                    return Unavailable(f"workflows cannot be listed: {page.message}")
                items += _items(page)
            else:
                return items
        return Unavailable("the list of workflows expired twice while it was read")

    def _pages(self) -> Iterator[ApiAnswer | NoAnswer]:
        query = {
            "labelSelector": f"{workflows.RUN_LABEL},{workflows.COMPLETED_LABEL}!=true",
            "limit": str(self.page),
        }
        place = ""
        while True:
            wanted = query | ({"continue": place} if place else {})
            page = self.api.call(
                ApiCall(method="GET", path=self._path(), query=wanted, accept=METADATA_LIST)
            )
            yield page
            if isinstance(page, NoAnswer):
                return
            place = _next(page)
            if not place:
                return

    def _path(self, name: str = "") -> str:
        base = f"/apis/{workflows.API_VERSION}/namespaces/{self.api.namespace}/workflows"
        return f"{base}/{name}" if name else base


def _items(page: ApiAnswer) -> list[Mapping[str, object]]:
    items = page.document.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _next(page: ApiAnswer) -> str:
    metadata = page.document.get("metadata")
    return str(metadata.get("continue") or "") if isinstance(metadata, dict) else ""
