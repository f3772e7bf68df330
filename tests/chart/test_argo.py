"""The chart with the backend argo: the template has what the launcher and the commands expect."""

import json
from typing import Any

import pytest

from datarecs_argo.workflows import TEMPLATE, workflow_of
from datarecs_reconciliation_worker.workflow_wiring import FAILURES, STATUS, read_options
from datarecs_testing.builders import a_run
from tests.chart.policy import of_kind
from tests.chart.rendering import KubeObject, Values, example, merge, render, render_case
from tests.chart.test_manifests import schema_faults

ARGO: Values = {
    "launcher": {"backend": "argo"},
    "network": {
        "to": {"kubernetes": {"ports": [443], "peers": [{"ipBlock": {"cidr": "::1/128"}}]}}
    },
}
TINI = ["/usr/bin/tini", "-s", "--"]
"""Reaps what a killed child leaves, although Argo's executor is the first process of the pod."""


@pytest.fixture(scope="module")
def template() -> KubeObject:
    (only,) = of_kind(render_case("all-on"), "WorkflowTemplate")
    return only


def container(template: KubeObject, name: str) -> dict[str, Any]:
    by_name = {one["name"]: one["container"] for one in template["spec"]["templates"]}
    return dict(by_name[name])


@pytest.mark.case("K40")
def test_the_exit_handler_is_the_command_finish(template: KubeObject) -> None:
    spec = template["spec"]
    assert (template["metadata"]["name"], spec["entrypoint"]) == (TEMPLATE, "reconcile")
    finish = container(template, spec["onExit"])
    assert finish["command"] == TINI
    assert finish["args"][:2] == ["datarecs-reconciliation-worker", "finish"]
    variables = {one["name"]: one["value"] for one in finish["env"]}
    assert variables[STATUS] == "{{workflow.status}}"
    assert variables[FAILURES] == "{{workflow.failures}}"
    assert "retryStrategy" not in json.dumps(template)


@pytest.mark.case("K40")
@pytest.mark.parametrize("command", ["execute", "finish"])
def test_the_options_of_a_pod_are_the_parameters_of_its_workflow(
    template: KubeObject, command: str
) -> None:
    run = a_run(attempt=1)
    workflow: Any = workflow_of(run, namespace="datarecs", lease_epoch=1)
    values = {one["name"]: one["value"] for one in workflow["spec"]["arguments"]["parameters"]}
    declared = {one["name"] for one in template["spec"]["arguments"]["parameters"]}
    assert declared == set(values)
    name = "reconcile" if command == "execute" else command
    args = container(template, name)["args"]
    assert args[:2] == ["datarecs-reconciliation-worker", command]
    filled = [
        values[arg.removeprefix("{{workflow.parameters.").removesuffix("}}")]
        if arg.startswith("{{")
        else arg
        for arg in args[2:]
    ]
    assert read_options(command, filled).run_id == run.run_id


@pytest.mark.case("K30")
@pytest.mark.case("K40")
def test_a_workflow_has_the_form_of_its_kind_and_faults_are_detected(template: KubeObject) -> None:
    workflow: Any = workflow_of(a_run(attempt=1), namespace="datarecs", lease_epoch=1)
    assert list(schema_faults(workflow, "1.31")) == []
    workflow["spec"]["activeDeadlineSeconds"] = "3600"
    assert len(list(schema_faults(workflow, "1.31"))) == 1
    misspelt = {**template, "spec": {**template["spec"], "onexit": "finish"}}
    assert len(list(schema_faults(misspelt, "1.31"))) == 1


def test_pods_of_workflows_are_those_of_the_worker_without_its_probes(
    template: KubeObject,
) -> None:
    worker = next(
        one
        for one in of_kind(render_case("all-on"), "Deployment")
        if one["metadata"]["name"] == "datarecs-reconciliation-worker"
    )["spec"]["template"]["spec"]
    ours = container(template, "reconcile")
    theirs = worker["containers"][0]
    for same in ("image", "env", "resources", "securityContext", "volumeMounts"):
        assert ours[same] == theirs[same]
    assert template["spec"]["volumes"] == worker["volumes"]
    assert not {"livenessProbe", "ports", "lifecycle", "name"} & ours.keys()


def test_services_that_know_backends_get_the_setting_and_no_other_does() -> None:
    def services(values: Values) -> set[str]:
        return {
            one["metadata"]["name"]
            for one in of_kind(render(values), "Deployment")
            for variable in one["spec"]["template"]["spec"]["containers"][0]["env"]
            if variable == {"name": "DATARECS_LAUNCHER__BACKEND", "value": "argo"}
        }

    assert services(merge(example(), ARGO)) == {
        "datarecs-core-api",
        "datarecs-resource-controller",
        "datarecs-run-controller",
    }
    assert services(example()) == set()


def test_containers_of_argo_meet_pod_security_restricted() -> None:
    (template,) = of_kind(render(merge(example(), ARGO)), "WorkflowTemplate")
    patch = json.loads(template["spec"]["podSpecPatch"])
    patched = [*patch["initContainers"], *patch["containers"]]
    assert [one["name"] for one in patched] == ["init", "wait"]
    for one in patched:
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


def test_without_argo_nothing_of_it_is_there() -> None:
    objects = render_case("example")
    assert list(of_kind(objects, "WorkflowTemplate", "Role")) == []
    assert "workflow" not in json.dumps(objects)


def test_the_queue_is_left_out_by_disabling_its_worker() -> None:
    alone = merge(ARGO, {"services": {"reconciliation-worker": {"enabled": False}}})
    objects = render(merge(example(), alone))
    names = {one["metadata"]["name"] for one in objects}
    assert "datarecs-reconciliation-worker" not in names
    assert {TEMPLATE, "datarecs-workflow"} <= names
