"""Argo for tests: its kinds in full, its controller built from source, a kubelet in Python.

The controller is the real one. Pods never run, so a test writes the statuses that a kubelet would
write and sees what the controller makes of them.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from datarecs_runtime.environment import process_environment
from tests.kubeapi.api_server import HERE, ApiServer, BuildError, KubeObject, custom_kinds

MODULE = "github.com/argoproj/argo-workflows/v4"
KINDS = "manifests/base/crds"
FULL = ("workflowtaskresults", "workflowtemplates", "workflows")
MINIMAL = (
    *("workflowtasksets", "cronworkflows", "clusterworkflowtemplates"),
    *("workfloweventbindings", "workflowartifactgctasks"),
)
"""Kinds that the controller watches and nobody here creates."""
TRIES, PAUSE_S = 300, 0.1
CONTROLLER = {
    "LEADER_ELECTION_DISABLE": "true",
    "RECENTLY_STARTED_POD_DURATION": "1s",
    "RECENTLY_DELETED_POD_DURATION": "1s",
}
"""Its environment: Argo waits for a late pod 10 s, and 2 min for the results of a deleted one."""
MERGE_PATCH = "application/merge-patch+json"
WORKFLOW, ON_EXIT = "workflows.argoproj.io/workflow", "workflows.argoproj.io/on-exit"

T = TypeVar("T")


def until(state: Callable[[], T | None], what: str) -> T:
    """The first value that is not None, within half a minute."""
    for _ in range(TRIES):
        value = state()
        if value is not None:
            return value
        Event().wait(PAUSE_S)
    raise AssertionError(f"{what} did not happen")


def install_kinds(server: ApiServer) -> None:
    """The kinds that the chart and the launcher use with their full schemas, once per server.

    Raises:
        BuildError: the module cannot be downloaded.
    """
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workflows.argoproj.io"
    if server.client.get(path).is_success:
        return
    texts = custom_kinds(
        MODULE,
        *(f"{KINDS}/full/argoproj.io_{name}.yaml" for name in FULL),
        *(f"{KINDS}/minimal/argoproj.io_{name}.yaml" for name in MINIMAL),
    )
    for text in texts:
        server.install_kind(text)
    workflows = "/apis/argoproj.io/v1alpha1/workflows"
    until(lambda: server.client.get(workflows).is_success or None, "the storage of workflows")


def build_controller() -> Path:
    """The workflow-controller, built once from the module that `crds/go.mod` pins.

    DATARECS_TEST_ARGO_CONTROLLER names a program that was built before.

    Raises:
        BuildError: there is no Go, or a module cannot be had.
    """
    environment = process_environment()
    if named := environment.get("DATARECS_TEST_ARGO_CONTROLLER"):
        return Path(named)
    pins = (HERE / "crds/go.mod").read_bytes()
    cache = Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "datarecs"
    program = cache / f"argo-{hashlib.sha256(pins).hexdigest()[:16]}"
    if not program.exists():
        _build(program)
    return program


def _build(program: Path) -> None:
    go = shutil.which("go", path=process_environment().get("PATH"))
    if go is None:
        raise BuildError("the command go is not installed")
    download = subprocess.run(
        [go, "mod", "download", "-json", MODULE],
        cwd=HERE / "crds",
        env=dict(process_environment()),
        capture_output=True,
        text=True,
        check=False,
    )
    if download.returncode:
        raise BuildError(f"{MODULE}: {download.stdout}{download.stderr}")
    source = json.loads(download.stdout)["Dir"]
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_suffix(".new")
    done = subprocess.run(
        [
            *(go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"),
            *("-o", str(draft), "./cmd/workflow-controller"),
        ],
        cwd=source,
        env={**process_environment(), "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"go build of Argo's controller: {done.stderr[-800:]}")
    draft.rename(program)


@contextmanager
def running_controller(
    program: Path, server: ApiServer, folder: Path, *, namespace: str
) -> Iterator[None]:
    """Argo's controller for one namespace."""
    config = json.loads(server.kubeconfig())
    config["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig, log = folder / "kubeconfig", folder / "argo.log"
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "workflow-controller-configmap"},
        "data": {},
    }
    server.apply(settings, namespace=namespace).raise_for_status()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(str(program), "--namespaced", "--managed-namespace", namespace),
                *("--executor-image", "argoexec:test", "--kubeconfig", str(kubeconfig)),
            ],
            env={**process_environment(), **CONTROLLER},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """Finds the pods of a workflow and says how they fare."""

    server: ApiServer
    namespace: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def pod(self, workflow: str, *, on_exit: bool = False) -> KubeObject:
        """The pod of a workflow, once the controller has created it."""

        def created() -> KubeObject | None:
            answer = self.server.client.get(
                self.path, params={"labelSelector": f"{WORKFLOW}={workflow}"}
            ).raise_for_status()
            return next(
                (
                    pod
                    for pod in answer.json()["items"]
                    if (ON_EXIT in pod["metadata"]["labels"]) is on_exit
                ),
                None,
            )

        return until(created, f"the {'exit handler' if on_exit else 'pod'} of {workflow}")

    def has_pod(self, workflow: str, *, on_exit: bool) -> bool:
        answer = self.server.client.get(
            self.path, params={"labelSelector": f"{WORKFLOW}={workflow}"}
        ).raise_for_status()
        labels = [pod["metadata"]["labels"] for pod in answer.json()["items"]]
        return any((ON_EXIT in one) is on_exit for one in labels)

    def report(self, pod: KubeObject, phase: str, **status: Any) -> None:  # noqa: ANN401  any field of a status
        name = pod["metadata"]["name"]
        self.server.client.patch(
            f"{self.path}/{name}/status",
            content=json.dumps({"status": {"phase": phase, **status}}),
            headers={"Content-Type": MERGE_PATCH},
        ).raise_for_status()

    def run(self, pod: KubeObject) -> None:
        running = {"running": {"startedAt": "2026-01-15T12:00:00Z"}}
        names = [one["name"] for one in pod["spec"]["containers"]]
        self.report(pod, "Running", containerStatuses=[_container(one, running) for one in names])

    def end(self, pod: KubeObject, exit_code: int, *, reason: str = "") -> None:
        """The main container ends, and Argo's executor after it."""
        failed = exit_code != 0
        why = reason or ("Error" if failed else "Completed")
        main = {"terminated": {"exitCode": exit_code, "reason": why}}
        other = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        names = [one["name"] for one in pod["spec"]["containers"]]
        statuses = [_container(one, main if one == "main" else other) for one in names]
        self.report(pod, "Failed" if failed else "Succeeded", containerStatuses=statuses)

    def delete(self, pod: KubeObject) -> None:
        self.server.client.delete(
            f"{self.path}/{pod['metadata']['name']}", params={"gracePeriodSeconds": "0"}
        ).raise_for_status()


def _container(name: str, state: KubeObject) -> KubeObject:
    return {
        "name": name,
        "image": "x",
        "imageID": "",
        "ready": "running" in state,
        "restartCount": 0,
        "state": state,
    }
