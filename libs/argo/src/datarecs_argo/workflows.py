"""A run as a Workflow of Argo, and what a Workflow says about its run.

One module for both directions, so that labels, parameters and phases have one home. The
WorkflowTemplate `datarecs-run` of the chart has the same parameters.
"""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from datarecs_application.ports.execution import (
    Ended,
    LiveExecution,
    Observation,
    Pending,
    Running,
)
from datarecs_core.runs.model import Run
from datarecs_core.runs.workflow_failures import FailedNode
from datarecs_core.values import RunId, TenantId, aware

API_VERSION = "argoproj.io/v1alpha1"
TEMPLATE = "datarecs-run"
RUN_LABEL = "datarecs.io/run-id"
JOB_LABEL = "datarecs.io/job-id"
TENANT_LABEL = "datarecs.io/tenant-id"
COMPLETED_LABEL = "workflows.argoproj.io/completed"
PHASE_LABEL = "workflows.argoproj.io/phase"
_ENDED = frozenset({"Succeeded", "Failed", "Error"})
_FAILED = frozenset({"Failed", "Error"})


def workflow_of(run: Run, *, namespace: str, lease_epoch: int) -> dict[str, object]:
    """The Workflow to create; everything else stands in the template."""
    parameters = {
        "run_id": str(run.run_id),
        "job_id": str(run.job_id),
        "tenant_id": str(run.tenant_id),
        "attempt": str(run.attempt),
        "lease_epoch": str(lease_epoch),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Workflow",
        "metadata": {
            "name": run.execution_name,
            "namespace": namespace,
            "labels": {
                RUN_LABEL: str(run.run_id),
                JOB_LABEL: str(run.job_id),
                TENANT_LABEL: str(run.tenant_id),
            },
        },
        "spec": {
            "workflowTemplateRef": {"name": TEMPLATE},
            # A number of seconds: no parameter can stand here.
            "activeDeadlineSeconds": run.deadline_seconds,
            "arguments": {
                "parameters": [{"name": name, "value": value} for name, value in parameters.items()]
            },
        },
    }


def run_id_of(workflow: Mapping[str, object]) -> str | None:
    """The run that a Workflow names; None without our label."""
    return _labels(workflow).get(RUN_LABEL)


def observed(workflow: Mapping[str, object]) -> Observation:
    """The state of a Workflow; the phase is final only after its exit handler has ended."""
    status = _mapping(workflow.get("status"))
    phase = str(status.get("phase") or "")
    if phase in _ENDED:
        return Ended(phase, _instant(status.get("finishedAt")), _failures(status))
    return Running() if phase == "Running" else Pending()


def observed_by_label(metadata: Mapping[str, object]) -> Observation:
    """The same from the labels that Argo's controller sets, for a Workflow that has not ended."""
    return Running() if _labels(metadata).get(PHASE_LABEL) == "Running" else Pending()


def live_execution(metadata: Mapping[str, object]) -> LiveExecution | None:
    """The run of a listed Workflow; None if its labels are not ours."""
    labels = _labels(metadata)
    try:
        tenant, run = UUID(labels.get(TENANT_LABEL, "")), UUID(labels.get(RUN_LABEL, ""))
    except ValueError:
        return None
    return LiveExecution(name=name_of(metadata), tenant_id=TenantId(tenant), run_id=RunId(run))


def name_of(workflow: Mapping[str, object]) -> str:
    return str(_mapping(workflow.get("metadata")).get("name") or "")


def _labels(workflow: Mapping[str, object]) -> dict[str, str]:
    labels = _mapping(_mapping(workflow.get("metadata")).get("labels"))
    return {name: str(value) for name, value in labels.items()}


def _failures(status: Mapping[str, object]) -> tuple[FailedNode, ...]:
    """The failed nodes, without those of exit handlers; none where Argo stores them elsewhere."""
    nodes = [_mapping(node) for node in _mapping(status.get("nodes")).values()]
    return tuple(
        FailedNode(
            display_name=str(node.get("displayName") or ""),
            template_name=str(node.get("templateName") or ""),
            message=str(node.get("message") or ""),
            phase=str(node.get("phase") or ""),
            pod_name=str(node.get("id") or ""),
            finished_at=str(node.get("finishedAt") or ""),
        )
        for node in nodes
        if node.get("phase") in _FAILED and not _mapping(node.get("nodeFlag")).get("hooked")
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _instant(value: object) -> datetime | None:
    try:
        return aware(datetime.fromisoformat(str(value)))
    except ValueError:
        return None
