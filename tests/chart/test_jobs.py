"""Migrations and topics: as hooks, as jobs, or not at all."""

import pytest

from tests.chart.policy import of_kind
from tests.chart.rendering import KubeObject, Values, example, merge, render

HOOKS: Values = {"migrations": {"mode": "hook"}, "topics": {"mode": "hook"}}
JOBS: Values = {"migrations": {"mode": "job"}, "topics": {"mode": "job"}}
NONE: Values = {"migrations": {"mode": "none"}, "topics": {"mode": "none"}}


def of_jobs(changes: Values) -> list[KubeObject]:
    """The objects of both jobs."""
    return [
        one
        for one in render(merge(example(), changes))
        if one["metadata"]["labels"]["app.kubernetes.io/component"] in {"migrate", "topics"}
    ]


def job(changes: Values, name: str = "migrate") -> KubeObject:
    return next(one for one in of_kind(of_jobs(changes), "Job") if name in one["metadata"]["name"])


@pytest.mark.case("K34")
def test_hooks_run_before_the_release_with_separate_accounts() -> None:
    objects = of_jobs(HOOKS)
    assert sorted(one["kind"] for one in objects) == [
        *("Job", "Job", "NetworkPolicy", "NetworkPolicy", "ServiceAccount", "ServiceAccount")
    ]
    weights = {}
    for one in objects:
        annotations = one["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        weights[one["kind"], one["metadata"]["name"]] = int(annotations["helm.sh/hook-weight"])
    assert weights["Job", "datarecs-migrate"] == -5
    assert weights["Job", "datarecs-topics"] == -4
    assert weights["ServiceAccount", "datarecs-migrate"] < -5


@pytest.mark.case("K34")
def test_jobs_are_plain_and_get_a_new_name_with_each_change() -> None:
    assert all("annotations" not in one["metadata"] for one in of_jobs(JOBS))
    before = job(JOBS)["metadata"]["name"]
    after = job(merge(JOBS, {"image": {"tag": "0.2.0"}}))["metadata"]["name"]
    assert before == job(JOBS)["metadata"]["name"]
    assert before != after
    assert before.startswith("datarecs-migrate-")


@pytest.mark.case("K34")
def test_none_leaves_both_to_the_operator() -> None:
    assert of_jobs(NONE) == []


def test_jobs_run_the_commands_of_the_product_with_their_logins() -> None:
    for name, command, file in (
        ("migrate", ["datarecs", "admin", "migrate"], "database__url"),
        ("topics", ["datarecs", "admin", "topics", "apply"], "kafka__password"),
    ):
        pod = job(HOOKS, name)["spec"]["template"]["spec"]
        assert pod["containers"][0]["args"] == command
        sources = next(one for one in pod["volumes"] if one["name"] == "secrets")["projected"]
        assert sources["sources"][0]["secret"]["items"][0]["path"] == file
        assert pod["restartPolicy"] == "Never"
    spec = job(HOOKS)["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (3, 900)
