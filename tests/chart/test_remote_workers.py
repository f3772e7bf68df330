"""Capture-workers near a source: a release of them alone, and the release that serves them."""

from typing import Any

import helm_python as helm
import pytest

from datarecs_capture_worker.settings import Settings as WorkerSettings
from datarecs_core_api.settings import Settings as ApiSettings
from datarecs_runtime.capture_sections import WorkerMode
from datarecs_runtime.settings import load
from tests.chart.policy import containers, of_kind
from tests.chart.rendering import Values, example, merge, render, render_files, site
from tests.chart.test_manifests import VERSIONS, schema_faults

ISSUER = "https://login.example.com/realms/platform"
SERVED = {"remoteWorkers": {"issuer": ISSUER}}


def environment(values: Values, name: str) -> dict[str, str]:
    """The variables of a service's container."""
    for one, container in containers(render(values)):
        if one["metadata"]["name"] == f"datarecs-{name}":
            return {each["name"]: each["value"] for each in container["env"]}
    raise AssertionError(f"no service {name}")


def files(values: Values, name: str) -> dict[str, tuple[str, str]]:
    """Secret and key of the files of a service."""
    (deployment,) = [
        one
        for one in of_kind(render(values), "Deployment")
        if one["metadata"]["name"] == f"datarecs-{name}"
    ]
    volumes: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["volumes"]
    return {
        item["path"]: (source["secret"]["name"], item["key"])
        for volume in volumes
        for source in volume.get("projected", {}).get("sources", ())
        for item in source["secret"]["items"]
    }


def refusal(values: Values) -> str:
    with pytest.raises(helm.HelmError) as refused:
        render(values)
    return str(refused.value)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_site_has_capture_workers_and_nothing_else(version: str) -> None:
    objects = render(site())
    assert [fault for one in objects for fault in schema_faults(one, version)] == []
    assert {one["metadata"]["name"] for one in objects} == {
        "datarecs-capture-worker",
        "datarecs-default-deny",
    }
    assert list(of_kind(objects, "Job")) == []


def test_the_worker_of_a_site_accepts_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(site(), "capture-worker").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATARECS_WORKER__OIDC__CLIENT_SECRET", "s3cret")
    settings = load(WorkerSettings)
    assert settings.worker.mode is WorkerMode.REMOTE
    assert str(settings.worker.api_url).rstrip("/") == "https://datarecs.example.com"
    assert (settings.database, settings.blob) == (None, None)


def test_a_site_has_the_secret_of_its_client_alone() -> None:
    assert files(site(), "capture-worker") == {
        "worker__oidc__client_secret": ("datarecs-remote-worker", "client-secret")
    }


def test_a_site_reaches_its_sources_the_issuer_and_the_api() -> None:
    (policy,) = [one for one in of_kind(render(site()), "NetworkPolicy") if "egress" in one["spec"]]
    ports = [tuple(port["port"] for port in rule["ports"]) for rule in policy["spec"]["egress"]]
    assert sorted(ports) == [(53, 53), (443,), (443, 5432, 9092, 9093, 9094)]


def test_the_notes_of_a_site_say_what_it_does() -> None:
    notes = next(text for name, text in render_files(site()).items() if name.endswith("NOTES.txt"))
    assert "Capture-workers of datarecs" in notes
    assert "tenant create" not in notes
    assert "kek" not in notes


def test_core_api_serves_remote_workers_once_their_issuer_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "DATARECS_WORKER__API__ENABLED" not in environment(example(), "core-api")
    values = merge(example(), SERVED)
    variables = environment(values, "core-api")
    assert variables["DATARECS_WORKER__API__ENABLED"] == "true"
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for file in (one for one in files(values, "core-api") if not one.endswith(".crt")):
        value = "k" * 43 + "=" if file == "secrets__kek" else f"postgresql://a@127.0.0.1/{file}"
        monkeypatch.setenv(f"DATARECS_{file.upper()}", value)
    assert str(load(ApiSettings).worker.api.issuer).rstrip("/") == ISSUER
    assert files(values, "core-api")["database__capture__url"] == (
        "datarecs-database",
        "datarecs_capture",
    )
    worker = environment(values, "capture-worker")
    assert "DATARECS_WORKER__MODE" not in worker


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"existingSecret": ""}, "needs remoteWorkers.issuer and remoteWorkers.existingSecret"),
        ({"issuer": ""}, "needs remoteWorkers.issuer and remoteWorkers.existingSecret"),
        ({"clientId": ""}, "has no effect without remoteWorkers.clientId"),
    ],
)
def test_half_of_a_site_is_refused(changes: Values, message: str) -> None:
    assert message in refusal(merge(site(), {"remoteWorkers": changes}))


def test_what_a_site_does_not_have_is_refused() -> None:
    for more, message in (
        ({"launcher": {"backend": "argo"}}, "have no effect with remoteWorkers.clientId"),
        ({"services": {"capture-worker": {"enabled": False}}}, "nothing else runs at a site"),
        ({"ingress": {"enabled": True}}, "ingress.enabled needs services.core-api"),
    ):
        assert message in refusal(merge(site(), more))
    assert "remoteWorkers" in refusal(merge(site(), {"remoteWorkers": {"issuer": "http://x"}}))
