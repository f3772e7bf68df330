"""Values: what is required, what is refused, and what each of them changes."""

from typing import Any

import pytest

from tests.chart.rendering import (
    CHART,
    LONG_NAME,
    SERVICES,
    TENANT,
    KubeObject,
    Values,
    example,
    matrix,
    merge,
    parse,
    render,
    render_case,
    render_files,
)


def refusal(values: Values) -> str:
    """The message with which the chart refuses the values."""
    import helm_python as helm  # noqa: PLC0415  may not be installed

    with pytest.raises(helm.HelmError) as refused:
        render(values)
    return str(refused.value)


@pytest.mark.case("K28")
def test_without_values_the_message_names_everything_that_is_missing() -> None:
    message = refusal({})
    for name in (
        "baseUrl is not set",
        "database.existingSecret is not set",
        "kafka.bootstrap is not set",
        "blob.url is not set",
        "mail.host and mail.from are not set",
        "settings.EGRESS__DENIED_CIDRS is not set",
        "settings.API__TRUSTED_PROXIES is not set",
    ):
        assert name in message


def test_mail_is_not_required_without_the_email_notifier() -> None:
    values = merge(example(), {"mail": {"host": "", "from": ""}})
    assert "mail.host" in refusal(values)
    assert render(merge(values, {"services": {"email-notifier": {"enabled": False}}})) != []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blob": {"url": "file:///data", "existingSecret": ""}}, "blob.existingClaim is not set"),
        ({"blob": {"existingClaim": "artefacts"}}, "blob.existingClaim has no effect"),
        (
            {"blob": {"url": "file:///data", "existingClaim": "artefacts"}},
            "blob.endpoint and blob.existingSecret have no effect",
        ),
        ({"services": {"core-api": {"enabled": False}}}, "ingress.enabled needs"),
        (
            {"services": {"core-api": {"autoscaling": {"min": 4, "max": 2, "cpuPercent": 70}}}},
            "min 4 is more than max 2",
        ),
        (
            {"launcher": {"backend": "argo"}},
            "network.to.kubernetes.peers is not set",
        ),
        (
            {
                "launcher": {"backend": "argo"},
                "network": {"policies": False},
                "services": {"reconciliation-worker": None},
            },
            "needs the entry services.reconciliation-worker",
        ),
        ({"services": {"migrate": {"command": ["x"]}}}, "services.migrate: the chart uses"),
    ],
)
def test_values_that_contradict_are_refused(changes: Values, message: str) -> None:
    assert message in refusal(merge(example(), changes))


BAD: list[tuple[str, Any]] = [
    ("baseUrl", "http://datarecs.example.com"),
    ("baseURL", "https://datarecs.example.com"),
    ("image.tag", "latest"),
    ("image.digests.datarecs", "sha256:abc"),
    ("image.digests.other", f"sha256:{'a' * 64}"),
    ("image.pullPolicy", "Sometimes"),
    ("database.existingSecret", "Not A Name"),
    ("database.password", "secret"),
    ("kafka.bootstrap", "kafka.example.com"),
    ("kafka.existingSecret", ""),
    ("blob.url", "/data/blobs"),
    ("blob.url", "file://data/blobs"),
    ("mail.from", "datarecs"),
    ("tenantSecrets.0.tenant", "acme"),
    ("settings.DATABSE__URL", "x"),
    ("settings.DATABASE__URL", "postgresql://a:b@c/d"),
    ("settings.BASE_URL", "https://x.example.com"),
    ("network.to.databse", {"ports": [5432], "peers": []}),
    ("network.to.database.ports.0", "5432"),
    ("network.to.database.peers.0.ipBlock.cidr", "10.0.0.0"),
    ("eventing.mode", "nats"),
    ("eventing.brokerUrl", "kafka:9092"),
    ("eventing.deadLetterSink.url", "http://x"),
    ("settings.EVENTING__MODE", "knative"),
    ("settings.LAUNCHER__BACKEND", "argo"),
    ("launcher.backend", "airflow"),
    ("launcher.namespace", "runs"),
    ("podSecurityContext.runAsUser", 0),
    ("podSecurityContext.fsGroup", "10001"),
    ("podSecurityContext.privileged", True),
    ("migrations.mode", "always"),
    ("monitoring.podMonitor", "yes"),
    ("services.core-api.replicas", -1),
    ("services.core-api.resources.limits.memory", "512Mib"),
    ("services.core-api.uses.0", "databse"),
    ("services.core-api.secrets.database__url.from", "vault"),
    ("services.core-api.secrets.database_url", {"from": "database", "key": "datarecs_api"}),
    ("services.core-api.autoscaling.cpuPercent", 0),
    ("services.run-controller.rules.0.verbs.0", "*"),
    ("services.core-api.podLabels.app.kubernetes.io/name", "other"),
    ("services.reporting.replicas", 1),
    ("services.Reporting.command.0", "x"),
    ("defaults.command", ["x"]),
    ("jobs.migrate.replicas", 2),
    ("jobs.backup", {"command": ["x"]}),
]


def nested(path: str, value: Any) -> Any:  # noqa: ANN401  any value of JSON
    """`a.0.b` and a value as {"a": [{"b": value}]}; a key with dots is the last one."""
    if path.startswith("app.kubernetes.io/"):
        return {path: value}
    head, _, rest = path.partition(".")
    inner = nested(rest, value) if rest else value
    return [inner] if head == "0" else {head: inner}


@pytest.mark.case("K29")
@pytest.mark.parametrize(("path", "value"), BAD)
def test_a_bad_value_is_refused_with_its_path(path: str, value: Any) -> None:  # noqa: ANN401  any value of JSON
    message = refusal(merge(example(), nested(path, value)))
    last = "app.kubernetes.io/name" if "podLabels" in path else path.rpartition(".")[2]
    container = path.removesuffix(f".{last}").replace(".", "/")
    assert f"/{container}" in message or last in message


@pytest.mark.case("K31")
def test_every_service_comes_from_one_template_and_leaves_nothing_behind() -> None:
    names = [one["metadata"]["name"] for one in render_case("all-on")]
    for service in SERVICES:
        assert names.count(f"datarecs-{service}") >= 4
        values = merge(
            matrix()["all-on"][1],
            {"services": {service: {"enabled": False}}, "ingress": {"enabled": False}},
        )
        assert not [one for one in render(values) if one["metadata"]["name"].endswith(service)]


@pytest.mark.case("K31")
def test_a_service_is_added_by_data_alone() -> None:
    new = {
        "command": ["datarecs-archive-service"],
        "uses": ["database"],
        "secrets": {"database__url": {"from": "database", "key": "datarecs_archive"}},
    }
    before = render(example())
    after = render(merge(example(), {"services": {"archive-service": new}}))
    added = [one for one in after if one not in before]
    assert sorted(one["kind"] for one in added) == [
        "Deployment",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "ServiceAccount",
    ]


def test_the_chart_knows_the_services_of_the_product() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    assert set(next(parse(text))["services"]) == set(SERVICES)


@pytest.mark.case("K35")
def test_names_are_short_enough_for_the_longest_release_name() -> None:
    assert len(LONG_NAME) == 53
    names = [one["metadata"]["name"] for one in render_case("long-name")]
    assert max(map(len, names)) <= 63
    assert len(set(names)) > 10


def test_settings_reach_services_as_their_forms_of_text() -> None:
    env = {
        variable["name"]: variable["value"]
        for one in render_case("all-on")
        if one["metadata"]["name"] == "datarecs-core-api" and one["kind"] == "Deployment"
        for variable in one["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert env["DATARECS_EGRESS__DENIED_CIDRS"] == "198.51.100.7/32,2001:4860::/32"
    assert env["DATARECS_LIMITS__REQUESTS_PER_MINUTE"] == "1200000"
    assert env["DATARECS_LIVE__NOTIFY"] == "false"
    assert env["DATARECS_MAIL__RECIPIENT_DOMAINS"].startswith('{"01900000')
    assert env["DATARECS_API__HOST"] == "0.0.0.0"  # noqa: S104  in a container
    assert env["DATARECS_SIDE__PORT"] == "9090"


def notes(values: Values) -> str:
    files = render_files(values)
    return next(text for name, text in files.items() if name.endswith("NOTES.txt"))


def test_notes_say_what_is_left_to_do() -> None:
    complete = merge(
        example(), {"settings": {"MAIL__RECIPIENT_DOMAINS": {TENANT: ["example.com"]}}}
    )
    assert "WARNING" not in notes(complete)
    assert "NOTE" not in notes(complete)
    bare = merge(complete, {"network": {"policies": False}})
    assert "network.policies is off" in notes(bare)
    closed = {"network": {"to": {"sources": {"ports": [443], "peers": []}}}}
    assert "Runs reach no source" in notes(merge(complete, closed))
    assert "No address gets mails" in notes(example())


def pod_specs(objects: list[KubeObject]) -> list[dict[str, Any]]:
    """The pods of everything that starts some, those of workflows included."""
    specs = []
    for one in objects:
        spec = one.get("spec", {})
        if one["kind"] in {"Deployment", "Job"}:
            specs.append(spec["template"]["spec"])
        elif one["kind"] == "WorkflowTemplate":
            specs.append(spec)
    return specs


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({}, {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}),
        (
            {"runAsUser": 1_000_650_000, "runAsGroup": 0, "fsGroup": None},
            {"runAsUser": 1_000_650_000, "runAsGroup": 0},
        ),
        ({"runAsUser": None, "runAsGroup": None, "fsGroup": None}, {}),
    ],
)
def test_ids_of_pods_are_changed_or_left_to_the_cluster(
    ids: Values, expected: dict[str, int]
) -> None:
    pods = pod_specs(render(merge(matrix()["all-on"][1], {"podSecurityContext": ids})))
    always = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert len(pods) > len(SERVICES)
    assert [pod["securityContext"] for pod in pods] == [{**always, **expected}] * len(pods)
