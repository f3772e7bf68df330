"""Rendered objects against the schemas of Kubernetes and of the custom kinds."""

import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from tests.chart.policy import containers, of_kind
from tests.chart.rendering import (
    CHART,
    EXAMPLES,
    ROOT,
    KubeObject,
    example,
    matrix,
    merge,
    parse,
    render,
    render_case,
)

LINT_INFO = 1
VERSIONS = ("1.27", "1.31", "1.37")
CRDS: dict[str, dict[str, Any]] = next(
    parse((ROOT / "tests/chart/crds.yaml").read_text(encoding="utf-8"))
)


def schema_faults(one: KubeObject, version: str) -> Iterator[str]:
    kind = f"{one['apiVersion']}/{one['kind']}"
    if kind in CRDS:
        if not isinstance(one["metadata"]["name"], str):
            yield f"{kind}: no name"
        for fault in jsonschema.Draft202012Validator(CRDS[kind]).iter_errors(one["spec"]):
            yield f"{kind}: {fault.json_path}: {fault.message}"
        return
    try:
        kubernetes_validate.validate(one, version, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as fault:
        yield f"{kind}: {fault}"


@pytest.mark.case("K28")
@pytest.mark.case("K30")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", matrix())
def test_every_object_has_the_form_of_its_kind(case: str, version: str) -> None:
    objects = render_case(case)
    assert len(objects) > 10
    assert [fault for one in objects for fault in schema_faults(one, version)] == []


@pytest.mark.case("K30")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_have_the_form_of_their_kinds(path: Any) -> None:  # noqa: ANN401  a path
    objects = [one for one in parse(path.read_text(encoding="utf-8")) if "kind" in one]
    assert [fault for one in objects for fault in schema_faults(one, "1.31")] == []
    assert objects != [] or path.name.endswith("values.yaml")


@pytest.mark.case("K30")
def test_wrong_fields_are_detected() -> None:
    objects = render_case("all-on")
    deployment = next(of_kind(objects, "Deployment"))
    deployment["spec"]["template"]["spec"]["securitycontext"] = {}
    assert list(schema_faults(deployment, "1.31")) != []
    monitor = next(of_kind(objects, "PodMonitor"))
    monitor["spec"]["podMetricsEndpoints"][0]["interval"] = 30
    assert list(schema_faults(monitor, "1.31")) != []
    user = next(
        one
        for one in parse((EXAMPLES / "strimzi-topics-and-users.yaml").read_text(encoding="utf-8"))
        if one["kind"] == "KafkaUser"
    )
    user["spec"]["authorization"]["acls"][0]["operation"] = "Read"
    assert len(list(schema_faults(user, "1.31"))) == 1


@pytest.mark.case("K44")
def test_generated_parts_of_the_chart_are_those_of_the_code() -> None:
    done = subprocess.run(
        [sys.executable, "docs/chart.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_strimzi_users_have_exactly_the_rights_of_the_catalogue() -> None:
    from datarecs_kafka.topics import Right, rights  # noqa: PLC0415  one test

    text = (EXAMPLES / "strimzi-topics-and-users.yaml").read_text(encoding="utf-8")
    granted = {
        Right(
            one["metadata"]["name"],
            operation.upper(),
            rule["resource"]["type"].upper(),
            rule["resource"]["name"],
        )
        for one in parse(text)
        if one["kind"] == "KafkaUser"
        for rule in one["spec"]["authorization"]["acls"]
        for operation in rule["operations"]
    }
    assert granted == rights()


def test_strimzi_topics_belong_to_the_cluster_of_the_example() -> None:
    cluster = next(
        one
        for one in parse((EXAMPLES / "strimzi-cluster.yaml").read_text(encoding="utf-8"))
        if one["kind"] == "Kafka"
    )
    text = (EXAMPLES / "strimzi-topics-and-users.yaml").read_text(encoding="utf-8")
    labels = {one["metadata"]["labels"]["strimzi.io/cluster"] for one in parse(text)}
    assert labels == {cluster["metadata"]["name"]}


def test_the_example_uses_the_secrets_and_topics_of_the_other_examples() -> None:
    values = example()
    assert values["kafka"]["caSecret"] == "datarecs-cluster-ca-cert"
    assert values["database"]["caSecret"] == "datarecs-db-ca"
    assert values["topics"]["mode"] == "none"


@pytest.mark.parametrize("network", example()["settings"]["API__TRUSTED_PROXIES"])
def test_the_example_trusts_no_network_of_pods_as_a_proxy(network: str) -> None:
    assert ip_network(network).num_addresses == 1


def test_the_page_makes_the_namespace_first_and_takes_roles_from_the_secret_last() -> None:
    page = (ROOT / "docs/howto/kubernetes.md").read_text(encoding="utf-8")
    assert page.index("kubectl create namespace datarecs\n") < page.index("kubectl -n datarecs")
    removed, tenant = page.index("remove the folders"), page.index("admin tenant create")
    assert removed < page.index("jsonpath='{.data.datarecs_migrate}'") < tenant


def test_helm_lint_finds_nothing() -> None:
    import helm_python as helm  # noqa: PLC0415  may not be installed

    findings = helm.lint(str(CHART), example(), strict=True)
    assert findings["errors"] == []
    assert [one for one in findings["messages"] if one["severity"] > LINT_INFO] == []


@pytest.mark.case("K33")
def test_secrets_are_files_of_secrets_that_exist_and_nothing_else() -> None:
    values = merge(example(), {"kafka": {"existingSecret": "other-kafka"}})
    secrets = {
        source["secret"]["name"]
        for one in render(values)
        if one["kind"] == "Deployment"
        for volume in one["spec"]["template"]["spec"]["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
    }
    assert "other-kafka" in secrets
    for _, container in containers(render(values)):
        assert not [one for one in container["env"] if "valueFrom" in one]


@pytest.mark.case("K33")
def test_a_changed_pod_annotation_replaces_pods() -> None:
    changed = merge(example(), {"defaults": {"podAnnotations": {"revision": "2"}}})
    before, after = render(example()), render(changed)
    assert [one for one in of_kind(before, "Deployment") if one in after] == []
