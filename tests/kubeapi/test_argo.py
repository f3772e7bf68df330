"""The launcher against a real API server, and Argo's real controller between launcher and pods."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from datarecs_application.ports.execution import Accepted, Ended, Gone, Stopping, Unavailable
from datarecs_argo.kubernetes import Access, KubernetesApi
from datarecs_argo.launcher import ArgoLauncher
from datarecs_argo.pace import CreationPace
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunErrored
from datarecs_core.runs.model import Run
from datarecs_core.runs.result_file import NoResult
from datarecs_core.runs.workflow_end import end_of_workflow
from datarecs_core.runs.workflow_failures import read_failures
from datarecs_reconciliation_worker.workflow_wiring import FAILURES, STATUS, read_options
from datarecs_runtime.clock import SystemClock
from datarecs_testing.conformance.kubernetes import (
    Cluster,
    KubernetesConformance,
    an_argo_run,
)
from datarecs_testing.plugin import lacking
from tests.chart.policy import of_kind
from tests.chart.rendering import KubeObject, example, merge, render
from tests.chart.test_argo import ARGO
from tests.kubeapi.api_server import TOKEN, ApiServer, BuildError
from tests.kubeapi.argo import (
    MERGE_PATCH,
    Kubelet,
    build_controller,
    install_kinds,
    running_controller,
    until,
)

pytestmark = pytest.mark.kubeapi

NO_FILE = NoResult(RunDetail.RESULT_MISSING, "the pod never ran")
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCluster(Cluster):
    server: ApiServer

    def limit(self, workflows: int | None) -> None:
        path = f"/api/v1/namespaces/{self.api.namespace}/resourcequotas"
        if workflows is None:
            self.server.client.delete(f"{path}/runs").raise_for_status()
            return
        hard = {"count/workflows.argoproj.io": str(workflows)}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "runs"},
            "spec": {"hard": hard},
        }
        self.server.client.post(path, json=quota).raise_for_status()
        # No controller counts here.
        self.server.client.patch(
            f"{path}/runs/status",
            json={"status": {"hard": hard, "used": {"count/workflows.argoproj.io": "0"}}},
            headers={"Content-Type": MERGE_PATCH},
        ).raise_for_status()

    def rest(self) -> None:
        Event().wait(1.1)


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    try:
        install_kinds(api_server)
    except BuildError as failure:
        pytest.skip(str(failure))
    return api_server


def a_cluster(server: ApiServer, folder: Path, namespace: str) -> RealCluster:
    token_file = folder / f"token-{namespace}"
    token_file.write_text(TOKEN, encoding="utf-8")
    access = Access(
        url=server.url, token_file=token_file, ca_file=server.ca_file, namespace=namespace
    )
    clock = SystemClock()
    launcher = ArgoLauncher(api=KubernetesApi(access, clock), pace=CreationPace(5, clock), page=2)
    return RealCluster(launcher=launcher, token_file=token_file, server=server)


def a_namespace(server: ApiServer, name: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }
    server.apply(namespace, namespace="").raise_for_status()


@pytest.fixture
def cluster(server: ApiServer, tmp_path: Path) -> Iterator[RealCluster]:
    name = f"recon-{next(_numbers)}"
    a_namespace(server, name)
    cluster = a_cluster(server, tmp_path, name)
    yield cluster
    cluster.api.close()


class TestConformance(KubernetesConformance):
    """The same as over the dictionary."""


def test_the_authority_is_read_again_when_its_file_changes(
    cluster: RealCluster, tmp_path: Path
) -> None:
    other = tmp_path / "ca.crt"
    good = cluster.server.ca_file.read_bytes()
    other.write_bytes(good)
    access = Access(
        url=cluster.server.url,
        token_file=cluster.token_file,
        ca_file=other,
        namespace=cluster.api.namespace,
    )
    clock = SystemClock()
    api = KubernetesApi(access, clock)
    launcher = ArgoLauncher(api=api, pace=CreationPace(5, clock))
    assert launcher.live() == []
    other.write_bytes(b"no certificate")
    assert isinstance(launcher.live(), Unavailable)
    other.write_bytes(good)
    cluster.rest()
    assert launcher.live() == []
    api.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Argo:
    """A namespace with the chart's template, Argo's controller and a kubelet in Python."""

    cluster: RealCluster
    kubelet: Kubelet

    def start(self, **changes: object) -> tuple[Run, KubeObject]:
        """A run whose pod runs."""
        run = an_argo_run(**changes)
        assert self.cluster.launcher.create(run, lease_epoch=1) == Accepted()
        pod = self.kubelet.pod(run.execution_name)
        self.kubelet.run(pod)
        until(lambda: "Running" in self.phases(run) or None, "the phase Running")
        return run, pod

    def phases(self, run: Run) -> set[str]:
        """Of the pods, as Argo has seen them: the workflow runs before its first pod does."""
        status = self.cluster.workflow(run.execution_name).get("status", {})
        nodes = status.get("nodes", {}).values()
        return {node["phase"] for node in nodes if node["type"] == "Pod"}

    def exit_handler(self, run: Run) -> KubeObject:
        return self.kubelet.pod(run.execution_name, on_exit=True)

    def the_end(self, run: Run, pod: KubeObject) -> tuple[str, str, str | None]:
        """What the exit handler makes of the variables that Argo set."""
        variables = {one["name"]: one.get("value", "") for one in main_of(pod)["env"]}
        failures = read_failures(variables[FAILURES])
        status = variables[STATUS]
        end = end_of_workflow(run, status=status, failures=failures, file=NO_FILE)
        assert isinstance(end, RunErrored)
        return status, end.error.code.value, end.error.detail_code

    def ended(self, run: Run) -> Ended:
        def state() -> Ended | None:
            seen = self.cluster.launcher.observe([run.execution_name])
            assert not isinstance(seen, Unavailable)
            only = seen[run.execution_name]
            return only if isinstance(only, Ended) else None

        return until(state, "the end of the workflow")


def main_of(pod: KubeObject) -> dict[str, Any]:
    main: dict[str, Any] = next(one for one in pod["spec"]["containers"] if one["name"] == "main")
    return main


@pytest.fixture(scope="module")
def argo(
    request: pytest.FixtureRequest, server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Argo]:
    try:
        program = build_controller()
    except BuildError as failure:
        lacking(request.config, "kubeapi", str(failure))
    folder, namespace = tmp_path_factory.mktemp("argo"), "argo"
    a_namespace(server, namespace)
    wanted = ("ServiceAccount", "Role", "RoleBinding", "WorkflowTemplate")
    for one in of_kind(render(merge(example(), ARGO)), *wanted):
        one["metadata"].pop("namespace", None)
        for subject in one.get("subjects", ()):
            subject["namespace"] = namespace
        server.apply(one, namespace=namespace).raise_for_status()
    cluster = a_cluster(server, folder, namespace)
    with running_controller(program, server, folder, namespace=namespace):
        yield Argo(cluster=cluster, kubelet=Kubelet(server=server, namespace=namespace))
    cluster.api.close()


@pytest.mark.case("K40")
def test_argo_makes_pods_with_the_options_of_the_run(argo: Argo) -> None:
    run, pod = argo.start()
    args = main_of(pod)["args"]
    at = args.index("execute")
    assignment = read_options("execute", args[at + 1 :])
    assert (assignment.run_id, assignment.tenant_id) == (run.run_id, run.tenant_id)
    assert (assignment.attempt, assignment.lease_epoch) == (1, 1)
    assert pod["spec"]["enableServiceLinks"] is False
    argo.kubelet.end(pod, 0)
    finish = argo.exit_handler(run)
    assert argo.the_end(run, finish) == ("Succeeded", "UNKNOWN", "RESULT_MISSING")
    argo.kubelet.end(finish, 0)
    assert argo.ended(run).status == "Succeeded"


@pytest.mark.case("K40")
@pytest.mark.case("L37")
@pytest.mark.parametrize(
    ("exit_code", "reason", "end"),
    [
        (1, "Error", ("Failed", "UNKNOWN", None)),
        (137, "OOMKilled", ("Failed", "CRASHED", "OUT_OF_MEMORY")),
        (137, "Error", ("Failed", "CRASHED", "KILLED")),
        (139, "Error", ("Failed", "CRASHED", "KILLED")),
    ],
)
def test_the_exit_of_a_pod_reaches_the_exit_handler_in_argos_words(
    argo: Argo, exit_code: int, reason: str, end: tuple[str, str, str | None]
) -> None:
    run, pod = argo.start()
    argo.kubelet.end(pod, exit_code, reason=reason)
    finish = argo.exit_handler(run)
    assert argo.the_end(run, finish) == end
    argo.kubelet.end(finish, 0)
    ended = argo.ended(run)
    assert ended.status == "Failed"
    assert any(f"exit code {exit_code}" in node.message for node in ended.failures)


@pytest.mark.case("L32")
def test_an_evicted_pod_is_a_crash(argo: Argo) -> None:
    run, pod = argo.start()
    message = "The node was low on resource: memory."
    argo.kubelet.report(pod, "Failed", reason="Evicted", message=message)
    assert argo.the_end(run, argo.exit_handler(run))[1] == "CRASHED"


@pytest.mark.case("L32")
def test_a_pod_that_is_deleted_is_a_crash(argo: Argo) -> None:
    run, pod = argo.start()
    argo.kubelet.delete(pod)
    finish = argo.exit_handler(run)
    assert argo.the_end(run, finish)[1:] == ("CRASHED", "TERMINATED")


@pytest.mark.case("L35")
def test_the_deadline_of_the_workflow_is_the_deadline_of_the_run(argo: Argo) -> None:
    run, pod = argo.start(deadline_seconds=12)  # the pod must run before
    finish = argo.exit_handler(run)
    assert argo.the_end(run, finish)[1:] == ("TIMED_OUT", "DEADLINE_EXCEEDED")
    argo.kubelet.end(pod, 143)
    argo.kubelet.end(finish, 0)
    assert argo.ended(run).status == "Failed"


@pytest.mark.case("L23")
def test_a_stop_runs_the_exit_handler(argo: Argo) -> None:
    run, _ = argo.start()
    assert argo.cluster.launcher.stop(run.execution_name, force=False) == Stopping()
    finish = argo.exit_handler(run)
    assert argo.the_end(run, finish)[1:] == ("UNKNOWN", "STOPPED_EXTERNALLY")
    argo.kubelet.end(finish, 0)
    ended = argo.ended(run)
    assert (ended.status, argo.cluster.launcher.stop(run.execution_name, force=False)) == (
        "Failed",
        Gone(),
    )


@pytest.mark.case("L32")
def test_terminate_runs_no_exit_handler_and_the_end_is_observed(argo: Argo) -> None:
    run, _ = argo.start()
    assert argo.cluster.launcher.stop(run.execution_name, force=True) == Stopping()
    ended = argo.ended(run)
    assert not argo.kubelet.has_pod(run.execution_name, on_exit=True)
    end = end_of_workflow(run, status=ended.status, failures=ended.failures, file=NO_FILE)
    assert isinstance(end, RunErrored)
    assert end.error.detail_code == "STOPPED_EXTERNALLY"


@pytest.mark.case("L32")
def test_a_failed_exit_handler_is_observed_with_the_failure_of_the_run(argo: Argo) -> None:
    run, pod = argo.start()
    argo.kubelet.end(pod, 137, reason="OOMKilled")
    argo.kubelet.end(argo.exit_handler(run), 1)
    ended = argo.ended(run)
    end = end_of_workflow(run, status=ended.status, failures=ended.failures, file=NO_FILE)
    assert isinstance(end, RunErrored)
    assert (end.error.code.value, end.error.detail_code) == ("CRASHED", "OUT_OF_MEMORY")
    live = argo.cluster.launcher.live()
    assert not isinstance(live, Unavailable)
    assert run.execution_name not in {one.name for one in live}


@pytest.mark.case("K48")
def test_pods_of_workflows_may_report_results_and_nothing_else(argo: Argo) -> None:
    server, where = argo.cluster.server, argo.kubelet.namespace
    rights = {
        (verb, resource): server.may(
            "datarecs-workflow", verb, "argoproj.io", resource, namespace=where
        )
        for resource in ("workflowtaskresults", "workflows")
        for verb in ("create", "patch", "get", "list", "delete")
    }
    assert {right for right, allowed in rights.items() if allowed} == {
        ("create", "workflowtaskresults"),
        ("patch", "workflowtaskresults"),
    }
