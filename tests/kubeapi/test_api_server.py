"""The chart against a real API server: strict fields, Pod Security, rights, upgrades."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.chart.policy import of_kind, templates
from tests.chart.rendering import (
    CHART,
    EXAMPLES,
    KubeObject,
    Values,
    example,
    matrix,
    merge,
    parse,
    render,
    render_case,
)
from tests.kubeapi.api_server import ApiServer, custom_kinds
from tests.kubeapi.argo import install_kinds

pytestmark = [pytest.mark.kubeapi, pytest.mark.case("K48")]

NAMESPACE = "datarecs"
MONITORING = "github.com/prometheus-operator/prometheus-operator"
DATABASES = "github.com/cloudnative-pg/cloudnative-pg"
MONITORING_FOLDER = "example/prometheus-operator-crd/monitoring.coreos.com"
MONITORS = ("podmonitors", "prometheusrules")
TRIGGERS = Path(__file__).parent / "crds" / "trigger.yaml"
NO_HOOKS: Values = {"migrations": {"mode": "job"}, "topics": {"mode": "job"}}
"""Nothing runs here, so a hook would never end."""


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    """The server with a namespace of Pod Security restricted, and the custom kinds."""
    create_namespace(api_server, NAMESPACE)
    for text in (
        TRIGGERS.read_text(encoding="utf-8"),
        *custom_kinds(MONITORING, *(f"{MONITORING_FOLDER}_{name}.yaml" for name in MONITORS)),
        *custom_kinds(DATABASES, "config/crd/bases/postgresql.cnpg.io_clusters.yaml"),
    ):
        api_server.install_kind(text)
    install_kinds(api_server)
    return api_server


def create_namespace(server: ApiServer, name: str) -> None:
    """With Pod Security restricted, and the account that a controller would add."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": labels}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    server.apply(namespace, namespace="").raise_for_status()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    server.apply(account, namespace=name).raise_for_status()


def accepted(server: ApiServer, objects: list[KubeObject]) -> Iterator[str]:
    """Apply each object without effect, and name it."""
    for one in objects:
        answer = server.apply(one, namespace=NAMESPACE, dry_run=True)
        assert answer.status_code in {200, 201}, (one["metadata"]["name"], answer.text)
        assert "warning" not in answer.headers, answer.headers["warning"]
        yield f"{one['apiVersion']} {one['kind']} {one['metadata']['name']}"


@pytest.mark.parametrize("case", matrix())
def test_the_server_accepts_every_object(server: ApiServer, case: str) -> None:
    names = list(accepted(server, render_case(case)))
    lines = [f"\n{case}: {len(names)} objects accepted", *sorted(names)]
    sys.stdout.write("\n  ".join(lines) + "\n")
    assert len(names) > 10


def test_the_server_accepts_the_database_of_the_examples(server: ApiServer) -> None:
    text = (EXAMPLES / "cloudnativepg.yaml").read_text(encoding="utf-8")
    assert len(list(accepted(server, list(parse(text))))) == 1


def test_the_server_refuses_an_unknown_field(server: ApiServer) -> None:
    deployment = next(of_kind(render_case("example"), "Deployment"))
    deployment["spec"]["template"]["spec"]["enableServicelinks"] = False
    answer = server.apply(deployment, namespace=NAMESPACE, dry_run=True)
    assert answer.is_error
    assert "enableServicelinks" in answer.text


def pod_of(one: KubeObject, template: Mapping[str, Any]) -> KubeObject:
    """A pod as a controller would make it; accounts are not there in a run without effect."""
    spec = {**template["spec"], "serviceAccountName": "default"}
    spec.pop("priorityClassName", None)
    metadata = {**template["metadata"], "name": one["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("case", matrix())
def test_every_pod_passes_pod_security_restricted(server: ApiServer, case: str) -> None:
    pods = [pod_of(one, template) for one, template in templates(render_case(case))]
    for pod in pods:
        answer = server.create(pod, namespace=NAMESPACE, dry_run=True)
        assert answer.status_code == 201, answer.text
    assert len(pods) >= 5


def test_a_pod_with_more_rights_is_refused(server: ApiServer) -> None:
    one, template = next(templates(render_case("example")))
    pod = pod_of(one, template)
    pod["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": True}
    answer = server.create(pod, namespace=NAMESPACE, dry_run=True)
    assert answer.status_code == 403
    assert "restricted" in answer.text


def test_accounts_may_do_what_the_table_says_and_no_more(server: ApiServer) -> None:
    objects = render_case("all-on")
    for one in of_kind(objects, "ServiceAccount", "Role", "RoleBinding"):
        server.apply(one, namespace=NAMESPACE).raise_for_status()
    samples = [
        ("get", "", "secrets"),
        ("list", "", "pods"),
        ("create", "", "pods"),
        ("create", "", "serviceaccounts"),
        ("get", "", "configmaps"),
        ("deletecollection", "argoproj.io", "workflows"),
        ("create", "rbac.authorization.k8s.io", "rolebindings"),
    ]
    for account in of_kind(objects, "ServiceAccount"):
        name = account["metadata"]["name"]
        for verb, group, resource in samples:
            assert not server.may(name, verb, group, resource, namespace=NAMESPACE), (name, verb)
        for verb in ("create", "get", "list", "watch", "patch", "delete"):
            allowed = server.may(name, verb, "argoproj.io", "workflows", namespace=NAMESPACE)
            assert allowed == (name == "datarecs-run-controller"), (name, verb)
            assert not server.may(name, verb, "argoproj.io", "workflows", namespace="default")


def test_an_upgrade_changes_no_immutable_field(server: ApiServer) -> None:
    first, second = merge(example(), NO_HOOKS), merge(matrix()["all-on"][1], NO_HOOKS)
    for values in (first, second, first):
        for one in render(values):
            answer = server.apply(one, namespace=NAMESPACE)
            assert answer.status_code in {200, 201}, (one["metadata"]["name"], answer.text)


def test_helm_installs_upgrades_and_rolls_back(server: ApiServer) -> None:
    import helm_python as helm  # noqa: PLC0415  may not be installed

    first = merge(example(), NO_HOOKS)
    second = merge(matrix()["all-on"][1], {**NO_HOOKS, "image": {"digests": {}, "tag": "0.2.0"}})
    namespace = "by-helm"  # no object of another test belongs to the release
    create_namespace(server, namespace)
    with helm.Config(kubeconfig_content=server.kubeconfig(), namespace=namespace) as cluster:
        installed = cluster.install(str(CHART), "platform", first)
        upgraded = cluster.upgrade(str(CHART), "platform", second)
        cluster.rollback("platform", version=1)
        statuses = [one["status"] for one in cluster.history("platform")]
        cluster.uninstall("platform")
    assert (installed["revision"], upgraded["revision"]) == (1, 2)
    assert statuses[-1] == "deployed"
