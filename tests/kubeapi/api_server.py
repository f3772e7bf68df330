"""Build, start and call a Kubernetes API server. Only Go and its module proxy are needed."""

import hashlib
import json
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from datarecs_runtime.environment import process_environment

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "server"
TOKEN = "token-of-the-test"
READY_TRIES, READY_PAUSE_S = 240, 0.25
MANAGER = "datarecs-test"
APPLY = "application/apply-patch+yaml"

KubeObject = dict[str, Any]


class BuildError(Exception):
    """The server cannot be built here."""


def build_server() -> Path:
    """The program, built on the first call for this source: about four minutes on two cores.

    DATARECS_TEST_KUBE_APISERVER names a program that was built before.
    """
    environment = process_environment()
    if named := environment.get("DATARECS_TEST_KUBE_APISERVER"):
        return Path(named)
    texts = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    cache = Path(environment.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "datarecs"
    program = cache / f"kubeapi-{hashlib.sha256(texts).hexdigest()[:16]}"
    if not program.exists():
        _build(program, environment)
    return program


def _build(program: Path, environment: Mapping[str, str]) -> None:
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        raise BuildError("the command go is not installed")
    program.parent.mkdir(parents=True, exist_ok=True)
    draft = program.with_suffix(".new")
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={kubernetes_version()}"
    done = subprocess.run(
        [go, "build", "-trimpath", "-ldflags", flags, "-o", str(draft), "."],
        cwd=SOURCE,
        env={**environment, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"go build: {done.stderr[-800:]}")
    draft.rename(program)


def kubernetes_version() -> str:
    """The version in go.mod; clients cannot read an answer without one."""
    text = (SOURCE / "go.mod").read_text(encoding="utf-8")
    return str(re.findall(r"k8s\.io/kubernetes (v\S+)", text)[0])


def custom_kinds(module: str, *files: str) -> Iterator[str]:
    """Definitions of custom kinds: these files of a Go module that `crds/go.mod` pins.

    Raises:
        BuildError: the module cannot be downloaded.
    """
    done = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=HERE / "crds",
        env=dict(process_environment()),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{module}: {done.stdout}{done.stderr}")
    folder = Path(json.loads(done.stdout)["Dir"])
    for file in files:
        yield (folder / file).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A client of the server, as its administrator."""

    client: httpx.Client
    ca_file: Path

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def kubeconfig(self) -> str:
        """For clients such as Helm."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        context = {"cluster": "test", "user": "admin", "namespace": "default"}
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "admin", "user": {"token": TOKEN}}],
                "contexts": [{"name": "test", "context": context}],
                "current-context": "test",
            }
        )

    def apply(self, one: KubeObject, *, namespace: str, dry_run: bool = False) -> httpx.Response:
        """Server-side apply; an unknown field is refused."""
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": "true"}
        if dry_run:
            query["dryRun"] = "All"
        return self.client.patch(
            self._path(one, namespace),
            params=query,
            content=json.dumps(one),
            headers={"Content-Type": APPLY},
        )

    def create(self, one: KubeObject, *, namespace: str, dry_run: bool = False) -> httpx.Response:
        """Create an object; an unknown field is refused."""
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        path = self._path(one, namespace).rpartition("/")[0]
        return self.client.post(path, params=query, json=one)

    def install_kind(self, text: str) -> None:
        """Create a CustomResourceDefinition and wait until the server serves the kind."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        made = self.client.post(
            path, content=text.encode(), headers={"Content-Type": "application/yaml"}
        ).raise_for_status()
        for _ in range(READY_TRIES):
            state = self.client.get(f"{path}/{made.json()['metadata']['name']}").json()
            conditions = state.get("status", {}).get("conditions") or ()
            if ("Established", "True") in {(one["type"], one["status"]) for one in conditions}:
                return
            Event().wait(READY_PAUSE_S)
        raise AssertionError(f"not served: {made.json()['metadata']['name']}")

    def _path(self, one: KubeObject, namespace: str) -> str:
        version = one["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = self._resource(root, one["kind"])
        where = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        return f"{root}{where}/{resource['name']}/{one['metadata'].get('name', '')}"

    def _resource(self, root: str, kind: str) -> KubeObject:
        for _ in range(READY_TRIES):
            answer = self.client.get(root)
            listed = answer.json()["resources"] if answer.is_success else []
            for one in listed:
                if one["kind"] == kind and "/" not in one["name"]:
                    return dict(one)
            Event().wait(READY_PAUSE_S)
        raise AssertionError(f"the server does not know {root} {kind}")

    def may(self, account: str, verb: str, group: str, resource: str, *, namespace: str) -> bool:
        """Whether a ServiceAccount of the namespace may do that there."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{account}",
                "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"],
                "resourceAttributes": {
                    "namespace": namespace,
                    "verb": verb,
                    "group": group,
                    "resource": resource,
                },
            },
        }
        answer = self.client.post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review
        ).raise_for_status()
        return bool(answer.json()["status"]["allowed"])


@contextmanager
def start_server(program: Path, folder: Path) -> Iterator[ApiServer]:
    """Start the server on free ports, wait until it is ready, stop it in the end."""
    etcd, peer, port = _free_ports(3)
    subprocess.run(
        ["openssl", "genrsa", "-out", str(folder / "accounts.key"), "2048"],
        check=True,
        capture_output=True,
    )
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n', encoding="utf-8")
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(program),
                str(folder / "etcd"),
                f"http://127.0.0.1:{etcd}",
                f"http://127.0.0.1:{peer}",
                "--bind-address=127.0.0.1",
                "--advertise-address=192.0.2.1",  # else it requires a network
                f"--secure-port={port}",
                f"--cert-dir={folder}",
                f"--service-account-key-file={folder / 'accounts.key'}",
                f"--service-account-signing-key-file={folder / 'accounts.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        server = _ready(process, f"https://127.0.0.1:{port}", folder, log)
        with closing(server.client):
            yield server
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready(process: subprocess.Popen[bytes], url: str, folder: Path, log: Path) -> ApiServer:
    ca_file = folder / "apiserver.crt"
    for _ in range(READY_TRIES):
        if process.poll() is not None:
            break
        if ca_file.exists():
            client = httpx.Client(
                base_url=url,
                headers={"Authorization": f"Bearer {TOKEN}"},
                verify=ssl.create_default_context(cafile=str(ca_file)),
                timeout=30,
                trust_env=False,
            )
            try:
                if client.get("/readyz").text == "ok":
                    return ApiServer(client=client, ca_file=ca_file)
            except httpx.TransportError:
                pass
            client.close()
        Event().wait(READY_PAUSE_S)
    raise AssertionError(f"the API server did not start: {log.read_text(errors='replace')[-3000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
