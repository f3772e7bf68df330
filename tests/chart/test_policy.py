"""The rules hold for every rendered case, and each finds the fault it is for."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.chart import policy
from tests.chart.policy import Check
from tests.chart.rendering import KubeObject, matrix, render_case

Plant = Callable[[list[KubeObject]], object]


def first(objects: list[KubeObject], kind: str, end: str = "") -> KubeObject:
    return next(
        one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(end)
    )


def pod(objects: list[KubeObject], end: str = "core-api") -> dict[str, Any]:
    template: dict[str, Any] = first(objects, "Deployment", end)["spec"]["template"]
    return template


def container(objects: list[KubeObject], end: str = "core-api") -> dict[str, Any]:
    only: dict[str, Any] = pod(objects, end)["spec"]["containers"][0]
    return only


@pytest.mark.case("K32")
@pytest.mark.case("X90")
@pytest.mark.parametrize("check", policy.CHECKS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("case", matrix())
def test_a_rule_holds_for_every_case(case: str, check: Check) -> None:
    if case == "bare" and check is policy.open_networks:
        pytest.skip("this case switches policies off")
    assert list(check(render_case(case))) == []


FAULTS: list[tuple[Check, Plant]] = [
    (
        policy.wrong_selectors,
        lambda o: pod(o)["metadata"]["labels"].pop("app.kubernetes.io/component"),
    ),
    (policy.wrong_selectors, lambda o: first(o, "Service")["spec"].update(selector={"a": "b"})),
    (policy.wrong_ports, lambda o: container(o)["livenessProbe"]["httpGet"].update(port="sidee")),
    (
        policy.wrong_ports,
        lambda o: first(o, "Service")["spec"]["ports"][0].update(targetPort="web"),
    ),
    (policy.wrong_names, lambda o: first(o, "Service")["metadata"].update(name="x" * 64)),
    (policy.wrong_names, lambda o: first(o, "Service")["metadata"]["labels"].update(team="a b")),
    (policy.wrong_names, lambda o: o.append(copy.deepcopy(o[0]))),
    (
        policy.wrong_quantities,
        lambda o: container(o)["resources"]["limits"].update(memory="512Mib"),
    ),
    (policy.wrong_quantities, lambda o: container(o)["resources"].pop("limits")),
    (policy.dangling_references, lambda o: pod(o)["spec"].update(serviceAccountName="gone")),
    (
        policy.dangling_references,
        lambda o: pod(o)["spec"]["volumes"].append({"name": "x", "secret": {"secretName": "gone"}}),
    ),
    (
        policy.inline_secrets,
        lambda o: container(o)["env"].append({"name": "DATARECS_SECRETS__KEK", "value": "x"}),
    ),
    (
        policy.inline_secrets,
        lambda o: container(o)["env"].append({"name": "X", "value": "postgres://a:b@c/d"}),
    ),
    (
        policy.inline_secrets,
        lambda o: o.append({"kind": "Secret", "metadata": {"name": "passwords"}}),
    ),
    (policy.wrong_images, lambda o: container(o).update(image="datarecs:latest")),
    (policy.wrong_images, lambda o: container(o).update(image="datarecs")),
    (policy.weak_pods, lambda o: pod(o)["spec"]["securityContext"].pop("runAsNonRoot")),
    (policy.weak_pods, lambda o: pod(o)["spec"].pop("enableServiceLinks")),
    (
        policy.weak_pods,
        lambda o: container(o)["securityContext"].update(readOnlyRootFilesystem=False),
    ),
    (policy.weak_pods, lambda o: pod(o)["spec"]["volumes"][0]["emptyDir"].pop("sizeLimit")),
    (policy.weak_pods, lambda o: pod(o)["spec"].update(hostNetwork=True)),
    (
        policy.wrong_probes,
        lambda o: container(o)["livenessProbe"]["httpGet"].update(path="/readyz"),
    ),
    (policy.wrong_probes, lambda o: container(o).pop("lifecycle")),
    (policy.wrong_scaling, lambda o: first(o, "Deployment", "core-api")["spec"].update(replicas=2)),
    (
        policy.wrong_scaling,
        lambda o: first(o, "PodDisruptionBudget")["spec"].update(maxUnavailable=0),
    ),
    (
        policy.wrong_scaling,
        lambda o: first(o, "HorizontalPodAutoscaler")["spec"].update(minReplicas=99),
    ),
    (
        policy.open_networks,
        lambda o: first(o, "NetworkPolicy", "core-api")["spec"]["egress"].append({"ports": []}),
    ),
    (
        policy.open_networks,
        lambda o: o.__setitem__(slice(None), [one for one in o if one["kind"] != "NetworkPolicy"]),
    ),
    (policy.excess_rights, lambda o: first(o, "Role")["rules"][0]["verbs"].append("*")),
    (policy.excess_rights, lambda o: first(o, "Role").update(kind="ClusterRole")),
    (
        policy.needless_tokens,
        lambda o: pod(o)["spec"].update(automountServiceAccountToken=True),
    ),
    (
        policy.needless_tokens,
        lambda o: first(o, "ServiceAccount").pop("automountServiceAccountToken"),
    ),
    (
        policy.early_hooks,
        lambda o: first(o, "Job", "migrate")["spec"]["template"]["spec"].update(
            serviceAccountName="datarecs-core-api"
        ),
    ),
    (
        policy.unknown_settings,
        lambda o: container(o)["env"].append({"name": "DATARECS_DATABSE__URL", "value": "x"}),
    ),
    (policy.unknown_settings, lambda o: container(o)["env"].append(container(o)["env"][0])),
    (
        policy.wrong_rules,
        lambda o: first(o, "PrometheusRule")["spec"]["groups"][0]["rules"][0].update(
            expr="datarecs_unheard > 0"
        ),
    ),
    (
        policy.wrong_rules,
        lambda o: first(o, "PrometheusRule")["spec"]["groups"][0]["rules"][0].update(expr="sum("),
    ),
]


@pytest.mark.case("K32")
@pytest.mark.parametrize(("check", "plant"), FAULTS)
def test_a_planted_fault_is_detected(check: Check, plant: Plant) -> None:
    objects = render_case("all-on")
    plant(objects)
    assert list(check(objects)) != []


def test_every_rule_has_a_planted_fault() -> None:
    assert {check for check, _ in FAULTS} == set(policy.CHECKS)
