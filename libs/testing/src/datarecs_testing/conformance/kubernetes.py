"""What the launcher of Argo relies on in a Kubernetes API server, real or in a dictionary.

The same tests run against both, so that a test over the dictionary shows what a cluster would do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from datarecs_application.ports.execution import (
    Accepted,
    Ended,
    Gone,
    Pending,
    Rejected,
    Running,
    Stopping,
    Unavailable,
)
from datarecs_argo.kubernetes import MERGE_PATCH, ApiAnswer, ApiCall, KubernetesApi
from datarecs_argo.launcher import ArgoLauncher
from datarecs_argo.workflows import API_VERSION, COMPLETED_LABEL, PHASE_LABEL
from datarecs_core.runs.model import Backend, Run
from datarecs_core.runs.naming import execution_name
from datarecs_testing.builders import a_run

FAILED = "main: OOMKilled (exit code 137)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A server, a launcher over it with pages of two, and how to limit its workflows."""

    launcher: ArgoLauncher
    token_file: Path

    @property
    def api(self) -> KubernetesApi:
        return self.launcher.api

    def limit(self, workflows: int | None) -> None:
        """Allow so many more Workflows; None: any number."""
        raise NotImplementedError

    def rest(self) -> None:
        """Let the pause after a failure pass."""
        raise NotImplementedError

    def path(self, name: str = "", *, namespace: str | None = None) -> str:
        base = f"/apis/{API_VERSION}/namespaces/{namespace or self.api.namespace}/workflows"
        return f"{base}/{name}" if name else base

    def workflow(self, name: str) -> Mapping[str, Any]:
        answer = self.api.call(ApiCall(method="GET", path=self.path(name)))
        assert isinstance(answer, ApiAnswer)
        assert answer.is_ok, answer.message
        return answer.document

    def write(self, name: str, change: Mapping[str, object]) -> None:
        """Change a Workflow as Argo's controller does."""
        call = ApiCall(method="PATCH", path=self.path(name), body=change, content_type=MERGE_PATCH)
        answer = self.api.call(call)
        assert isinstance(answer, ApiAnswer)
        assert answer.is_ok, answer.message

    def run(self, name: str, phase: str, **status: object) -> None:
        """The phase of a Workflow, in its status and its labels."""
        done = str(phase in {"Succeeded", "Failed", "Error"}).lower()
        labels = {PHASE_LABEL: phase, COMPLETED_LABEL: done}
        self.write(name, {"metadata": {"labels": labels}, "status": {"phase": phase, **status}})

    def delete(self, name: str) -> None:
        self.api.call(ApiCall(method="DELETE", path=self.path(name)))


def an_argo_run(**changes: object) -> Run:
    return a_run(backend=Backend.ARGO, attempt=1, **changes)


class KubernetesConformance:
    def test_a_workflow_is_created_once(self, cluster: Cluster) -> None:
        run = an_argo_run(deadline_seconds=900)
        answers = [cluster.launcher.create(run, lease_epoch=1) for _ in range(2)]
        assert answers == [Accepted(), Accepted()]
        spec = cluster.workflow(run.execution_name)["spec"]
        assert spec["activeDeadlineSeconds"] == 900
        assert {one["name"]: one["value"] for one in spec["arguments"]["parameters"]} == {
            "run_id": str(run.run_id),
            "job_id": str(run.job_id),
            "tenant_id": str(run.tenant_id),
            "attempt": "1",
            "lease_epoch": "1",
        }

    def test_a_workflow_of_another_run_under_the_name_is_no_success(self, cluster: Cluster) -> None:
        run, other = an_argo_run(), an_argo_run()
        cluster.launcher.create(replace(other, execution_name=run.execution_name), lease_epoch=1)
        answer = cluster.launcher.create(run, lease_epoch=1)
        assert isinstance(answer, Rejected)
        assert run.execution_name in answer.reason
        assert str(run.run_id) in answer.reason

    def test_a_workflow_above_the_quota_is_rejected(self, cluster: Cluster) -> None:
        cluster.limit(0)
        answer = cluster.launcher.create(an_argo_run(), lease_epoch=1)
        cluster.limit(None)
        assert isinstance(answer, Rejected)
        assert "exceeded quota" in answer.reason
        assert "(403 Forbidden)" in answer.reason

    def test_an_invalid_workflow_is_rejected_with_the_reason(self, cluster: Cluster) -> None:
        run = an_argo_run(deadline_seconds="900")
        answer = cluster.launcher.create(run, lease_epoch=1)
        assert isinstance(answer, Rejected)
        assert "activeDeadlineSeconds" in answer.reason

    def test_a_stop_lets_the_exit_handler_run_and_force_does_not(self, cluster: Cluster) -> None:
        run = an_argo_run()
        name = run.execution_name
        cluster.launcher.create(run, lease_epoch=1)
        assert cluster.launcher.stop(name, force=False) == Stopping()
        assert cluster.workflow(name)["spec"]["shutdown"] == "Stop"
        assert cluster.launcher.stop(name, force=True) == Stopping()
        assert cluster.workflow(name)["spec"]["shutdown"] == "Terminate"

    def test_what_has_ended_or_never_was_is_gone(self, cluster: Cluster) -> None:
        run = an_argo_run()
        cluster.launcher.create(run, lease_epoch=1)
        cluster.run(run.execution_name, "Failed")
        assert cluster.launcher.stop(run.execution_name, force=False) == Gone()
        assert cluster.launcher.stop(an_argo_run().execution_name, force=False) == Gone()

    def test_runs_are_observed_by_name(self, cluster: Cluster) -> None:
        runs = [an_argo_run() for _ in range(5)]
        names = [run.execution_name for run in runs]
        for run in runs[:4]:
            cluster.launcher.create(run, lease_epoch=1)
        cluster.run(names[1], "Running")
        cluster.run(
            names[2],
            "Failed",
            finishedAt="2026-01-15T12:00:00Z",
            nodes={
                "n-1": {
                    "id": "n-1",
                    "name": "reconcile",
                    "displayName": "reconcile",
                    "templateName": "reconcile",
                    "type": "Pod",
                    "phase": "Failed",
                    "message": FAILED,
                    "finishedAt": "2026-01-15T11:59:00Z",
                },
                "n-2": {
                    "id": "n-2",
                    "name": "finish",
                    "displayName": "finish",
                    "type": "Pod",
                    "phase": "Error",
                    "message": "pod deleted",
                    "nodeFlag": {"hooked": True},
                },
            },
        )
        cluster.delete(names[3])
        seen = cluster.launcher.observe(names)
        assert not isinstance(seen, Unavailable)
        ended = seen[names[2]]
        assert isinstance(ended, Ended)
        assert (ended.status, ended.at) == ("Failed", datetime(2026, 1, 15, 12, tzinfo=UTC))
        assert [node.message for node in ended.failures] == [FAILED]
        assert [seen[name] for name in (names[0], names[1], names[3], names[4])] == [
            Pending(),
            Running(),
            Gone(),
            Gone(),
        ]

    def test_live_executions_are_listed_over_all_pages(self, cluster: Cluster) -> None:
        runs = [an_argo_run() for _ in range(5)]
        for run in runs:
            cluster.launcher.create(run, lease_epoch=1)
        cluster.run(runs[0].execution_name, "Succeeded")
        live = cluster.launcher.live()
        assert not isinstance(live, Unavailable)
        names = {one.name: (one.tenant_id, one.run_id) for one in live}
        assert runs[0].execution_name not in names
        for run in runs[1:]:
            assert names[run.execution_name] == (run.tenant_id, run.run_id)

    def test_a_workflow_without_a_run_is_not_ours(self, cluster: Cluster) -> None:
        name = execution_name(an_argo_run().job_id, an_argo_run().run_id)
        body = {
            "apiVersion": API_VERSION,
            "kind": "Workflow",
            "metadata": {"name": name},
            "spec": {"workflowTemplateRef": {"name": "other"}},
        }
        cluster.api.call(ApiCall(method="POST", path=cluster.path(), body=body))
        live = cluster.launcher.live()
        assert not isinstance(live, Unavailable)
        assert name not in {one.name for one in live}

    def test_another_token_is_used_as_soon_as_the_file_has_it(self, cluster: Cluster) -> None:
        token = cluster.token_file.read_text(encoding="utf-8")
        cluster.token_file.write_text("expired", encoding="utf-8")
        answer = cluster.launcher.live()
        cluster.token_file.write_text(token, encoding="utf-8")
        assert isinstance(answer, Unavailable)
        assert "401" in answer.reason
        cluster.rest()
        assert not isinstance(cluster.launcher.live(), Unavailable)
