import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.services import SERVICES, Service, Surroundings, as_role, environment_of
from datarecs_cli.stack.settings import effective_environment
from datarecs_events.topics import SUBSCRIPTIONS
from datarecs_postgres.roles import SERVICE_OF
from datarecs_runtime.settings import known_names

ADMIN_URL = "postgresql+psycopg://stack:topsecret@127.0.0.1:54329/datarecs"


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    (tmp_path / "secrets").mkdir()
    ports = {"api": 8080} | {one.side_port_name: one.side_port for one in SERVICES}
    return Surroundings(
        layout=Layout(tmp_path),
        secrets=LocalSecrets(tmp_path / "secrets"),
        environment={"PATH": "/bin"},
        ports=ports,
        database_url=ADMIN_URL,
        bootstrap="127.0.0.1:29092",
        tenant_id="0193b3c0-0000-7000-8000-000000000001",
        project=Path("/project"),
        java_home=Path("/java"),
    )


def service(name: str) -> Service:
    return next(one for one in SERVICES if one.name == name)


def secrets_of(settings: Mapping[str, str]) -> dict[str, str]:
    """What stands in the files that the settings point at."""
    return {
        name: Path(value).read_text(encoding="utf-8")
        for name, value in settings.items()
        if name.endswith(("URL_FILE", "PASSWORD_FILE"))
    }


def test_every_service_logs_in_as_its_role() -> None:
    assert {one.role: one.name for one in SERVICES} == dict(SERVICE_OF)


def test_the_services_that_receive_events_are_those_with_a_principal() -> None:
    listening = {str(one.service) for one in SUBSCRIPTIONS}
    assert {one.principal for one in SERVICES if one.principal} == listening


def test_side_ports_differ_and_stay_in_their_range() -> None:
    ports = [one.side_port for one in SERVICES]
    assert len(set(ports)) == len(ports)
    assert all(9091 <= port <= 9098 for port in ports)


@pytest.mark.parametrize("name", [one.name for one in SERVICES])
def test_no_secret_stands_in_an_environment(around: Surroundings, name: str) -> None:
    settings = environment_of(service(name), around)
    secrets = [path.read_bytes() for path in around.layout.secrets.iterdir()]
    assert not any("topsecret" in value for value in settings.values())
    assert not any(value.encode() in secrets for value in settings.values())


def test_a_service_gets_its_database_login_alone(around: Surroundings) -> None:
    settings = environment_of(service("email-notifier"), around)
    password = around.secrets.password("datarecs_mail")
    assert secrets_of(settings)["DATARECS_DATABASE__URL_FILE"] == (
        f"postgresql+psycopg://datarecs_mail:{password}@127.0.0.1:54329/datarecs"
    )
    assert "DATARECS_DATABASE__RELAY__URL_FILE" not in settings


def test_the_run_controller_also_holds_the_relays_logins(around: Surroundings) -> None:
    settings = environment_of(service("run-controller"), around)
    assert settings["DATARECS_KAFKA__RELAY__USERNAME"] == "relay"
    secrets = secrets_of(settings)
    assert "datarecs_relay:" in secrets["DATARECS_DATABASE__RELAY__URL_FILE"]
    assert (
        secrets["DATARECS_KAFKA__RELAY__PASSWORD_FILE"] != secrets["DATARECS_KAFKA__PASSWORD_FILE"]
    )


def test_services_without_kafka_do_not_learn_where_it_is(around: Surroundings) -> None:
    settings = environment_of(service("core-api"), around)
    assert not any(name.startswith("DATARECS_KAFKA__") for name in settings)


def test_a_setting_of_the_user_wins_over_ours_but_not_over_the_wiring(around: Surroundings) -> None:
    user_settings = {
        "DATARECS_MAIL__TRANSPORT": "smtp",
        "DATARECS_SIDE__PORT": "1",
        "DATARECS_TEST_REQUIRE": "kafka",
        "DATARECS_DATABASE__URL": ADMIN_URL,
    }
    settings = environment_of(service("email-notifier"), replace(around, environment=user_settings))
    assert settings["DATARECS_MAIL__TRANSPORT"] == "smtp"
    assert settings["DATARECS_SIDE__PORT"] == "9094"
    assert "DATARECS_TEST_REQUIRE" not in settings
    assert "DATARECS_DATABASE__URL" not in settings


@pytest.mark.case("X64")
@pytest.mark.parametrize(
    ("uses", "readers"),
    [
        (None, {"capture-worker", "iceberg-sink", "reconciliation-worker"}),
        (["postgres:db.example.com"], {"capture-worker", "iceberg-sink", "reconciliation-worker"}),
        (["iceberg:lake.example.com"], {"capture-worker", "iceberg-sink", "reconciliation-worker"}),
        (["webhook:erp.example.com"], {"webhook-service"}),
        (["signing:erp.example.com"], {"webhook-service"}),
        (["url"], {"webhook-service"}),
        (
            ["url", "postgres:db.example.com"],
            {"capture-worker", "iceberg-sink", "reconciliation-worker", "webhook-service"},
        ),
        ([], set()),
    ],
)
def test_a_tenants_variable_reaches_the_services_that_send_it_alone(
    around: Surroundings, uses: list[str] | None, readers: set[str]
) -> None:
    environment = {"DATARECS_CONN_DEFAULT_BANK": "canary"}
    if uses is not None:
        bound = {"env:DATARECS_CONN_DEFAULT_BANK": uses}
        environment["DATARECS_SECRETS__USES"] = json.dumps(bound)
    around = replace(around, environment=environment)
    holding = {one.name for one in SERVICES if "canary" in environment_of(one, around).values()}
    assert holding == readers


@pytest.mark.case("X64")
def test_bindings_of_the_project_file_decide_who_gets_a_variable(
    around: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datarecs.toml").write_text(
        '[secrets.uses]\n"env:DATARECS_CONN_DEFAULT_HOOK" = ["webhook:erp.example.com"]\n',
        encoding="utf-8",
    )
    environment = effective_environment({"DATARECS_CONN_DEFAULT_HOOK": "canary"})
    around = replace(around, environment=environment)
    holding = {one.name for one in SERVICES if "canary" in environment_of(one, around).values()}
    assert holding == {"webhook-service"}


@pytest.mark.case("X64")
@pytest.mark.parametrize(
    ("name", "readers"),
    [
        ("DATARECS_MAIL__PASSWORD", {"email-notifier"}),
        ("DATARECS_SPARK__SECRET", {"reconciliation-worker"}),
        ("DATARECS_SECRETS__KEK", {"core-api", "reconciliation-worker", "webhook-service"}),
        ("DATARECS_KAFKA__PASSWORD", set()),
        ("DATARECS_DATABASE__URL", set()),
        ("DATARECS_API_KEY", set()),
        ("AWS_SECRET_ACCESS_KEY", set()),
        ("PGPASSWORD", set()),
        ("DATARECS_LOG__LEVEL", {one.name for one in SERVICES}),
    ],
)
def test_a_service_gets_the_settings_that_it_reads_alone(
    around: Surroundings, name: str, readers: set[str]
) -> None:
    around = replace(around, environment={name: "canary"})
    holding = {one.name for one in SERVICES if "canary" in environment_of(one, around).values()}
    assert holding == readers


def test_only_services_that_seal_or_open_know_where_the_key_encryption_key_is(
    around: Surroundings,
) -> None:
    knowing = {
        one.name for one in SERVICES if "DATARECS_SECRETS__KEK_FILE" in environment_of(one, around)
    }
    assert knowing == {"core-api", "reconciliation-worker", "webhook-service"}


def test_the_demo_domain_is_a_recipient_of_the_first_tenant(around: Surroundings) -> None:
    settings = environment_of(service("email-notifier"), around)
    domains = json.loads(settings["DATARECS_MAIL__RECIPIENT_DOMAINS"])
    assert domains == {around.tenant_id: ["demo.localhost"]}


@pytest.mark.case("K43")
@pytest.mark.parametrize("name", [one.name for one in SERVICES])
def test_every_name_that_a_service_gets_is_a_known_setting(around: Surroundings, name: str) -> None:
    settings = environment_of(service(name), around)
    ours = {one for one in settings if one.startswith("DATARECS_")}
    assert ours <= known_names()


def test_a_role_is_put_into_any_form_of_url() -> None:
    assert as_role(
        "postgresql://db.example:5433/x?sslmode=verify-full", "datarecs_api", "p:/@"
    ) == ("postgresql://datarecs_api:p%3A%2F%40@db.example:5433/x?sslmode=verify-full")
