import os
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_core.captures.request import ExecutionClass
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import ProcessCode, SettingsError
from datarecs_runtime.api_sections import Limits
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.capture_sections import AnyWorker, CaptureWorker
from datarecs_runtime.sections import (
    Database,
    Egress,
    Kafka,
    KafkaSecurity,
    Mail,
    Queue,
    Secrets,
    Section,
)
from datarecs_runtime.settings import (
    SECTIONS,
    USER_FILE,
    ServiceSettings,
    describe,
    known_names,
    load,
    settings_files,
)

URL = "postgresql://api:s3cr3t-word@db/datarecs"
TENANT = UUID("019b0000-0000-7000-8000-000000000001")


class Settings(ServiceSettings):
    database: Database
    """Where the state is."""
    queue: Queue = Queue()
    """How long leases last."""
    egress: Egress = Egress()
    """What may be dialled."""


class Mailer(ServiceSettings):
    mail: Mail
    """How mails leave."""
    secrets: Secrets = Secrets()
    """What seals secrets."""


@pytest.fixture(autouse=True)
def _an_empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("DATARECS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def set_all(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"DATARECS_{name}", value)


def faults_of(settings_class: type[ServiceSettings]) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as refusal:
        load(settings_class)
    assert refusal.value.code is ProcessCode.SETTINGS_INVALID
    return refusal.value.faults


def test_values_come_from_the_environment_in_readable_forms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(
        monkeypatch,
        DATABASE__URL=URL,
        PROFILE="local",
        QUEUE__LEASE_TTL="90s",
        EGRESS__ALLOWED_PORTS="9443, 10443",
        EGRESS__ALLOWED_CIDRS__WEBHOOK="10.1.0.0/16,fd12::/16",
        LOG__LEVEL="",
    )
    settings = load(Settings)
    assert settings.database.url.get_secret_value() == URL
    assert settings.profile is Profile.LOCAL
    assert settings.queue.lease_ttl == timedelta(seconds=90)
    assert settings.egress.allowed_ports == {9443, 10443}
    assert [str(net) for net in settings.egress.allowed_cidrs.webhook] == [
        "10.1.0.0/16",
        "fd12::/16",
    ]
    assert settings.log.level == "info"


@pytest.mark.parametrize(
    ("text", "length"),
    [("60", 60.0), ("60s", 60.0), ("2m", 120.0), ("0.5h", 1800.0), ("PT60S", 60.0)],
)
def test_a_duration_is_written_with_its_unit(
    monkeypatch: pytest.MonkeyPatch, text: str, length: float
) -> None:
    set_all(monkeypatch, DATABASE__URL=URL, QUEUE__LEASE_TTL=text)
    assert load(Settings).queue.lease_ttl.total_seconds() == length


@pytest.mark.case("K43")
def test_an_unknown_name_is_refused_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, DATABSE__URL=URL)
    faults = faults_of(Settings)
    assert "DATARECS_DATABSE__URL is not a setting; did you mean DATARECS_DATABASE__URL?" in faults
    assert "DATARECS_DATABASE__URL: Field required" in faults


def test_names_of_other_services_and_of_nobodys_settings_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(
        monkeypatch,
        DATABASE__URL=URL,
        MAIL__FROM="a@b.example",
        CONN_ACME_LEDGER="x",
        TEST_REQUIRE="postgres",
        API_KEY="drk_…",
    )
    assert load(Settings).queue == Queue()


@pytest.mark.case("K43")
def test_a_secret_may_come_from_a_named_file_or_from_the_secrets_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = Settings(database=Database(url=URL))  # type: ignore[arg-type]  # pydantic takes text
    (tmp_path / "named").write_text(URL + "\n")
    set_all(monkeypatch, DATABASE__URL_FILE=str(tmp_path / "named"))
    assert load(Settings) == plain
    monkeypatch.delenv("DATARECS_DATABASE__URL_FILE")
    (tmp_path / "database__url").write_text(URL + "\n")
    set_all(monkeypatch, SECRETS_DIR=str(tmp_path))
    assert load(Settings) == plain


def test_a_secret_file_that_is_missing_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, DATABASE__URL_FILE="/nowhere/url")
    assert "/nowhere/url" in "".join(faults_of(Settings))


def test_flag_environment_project_file_user_file_and_default_come_in_this_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user = tmp_path / ".config" / "datarecs"
    user.mkdir(parents=True)
    (user / "config.toml").write_text('contexts = 1\n[database]\nurl = "user"\npool_size = 3\n')
    assert load(Settings).database.pool_size == 3
    (tmp_path / "datarecs.toml").write_text("[database]\npool_size = 4\nstatement_timeout_s = 9\n")
    loaded = load(Settings).database
    assert (loaded.pool_size, loaded.statement_timeout_s) == (4, 9)
    assert loaded.url.get_secret_value() == "user"
    set_all(monkeypatch, DATABASE__POOL_SIZE="5")
    assert load(Settings).database.pool_size == 5
    assert load(Settings, database={"pool_size": 6}).database.pool_size == 6


def test_a_user_without_home_and_name_has_no_file_of_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(_uid: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert USER_FILE in settings_files()
    set_all(monkeypatch, DATABASE__URL=URL)
    assert load(Settings).queue == Queue()


def test_every_fault_is_reported_at_once_and_no_value_is_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "datarecs.toml").write_text("[queue]\nlease_tll = 1\n")
    set_all(
        monkeypatch,
        DATABASE__URL=URL,
        DATABASE__POOL_SIZE="many-s3cr3t",
        QUEUE__LEASE_TTL="1s",
        EGRESS__NAT64_PREFIXES="64:ff9b::/95",
        NOPE="1",
    )
    faults = faults_of(Settings)
    named = {fault.split(":")[0].split(" ")[0] for fault in faults}
    assert named == {
        "DATARECS_DATABASE__POOL_SIZE",
        "DATARECS_QUEUE__LEASE_TTL",
        "DATARECS_QUEUE__LEASE_TLL",
        "DATARECS_EGRESS__NAT64_PREFIXES",
        "DATARECS_NOPE",
    }
    assert "s3cr3t" not in "".join(faults)


@pytest.mark.case("X68")
def test_showing_settings_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, DATABASE__URL=URL)
    assert "s3cr3t" not in repr(load(Settings)) + str(load(Settings).model_dump())


def test_tables_are_json_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(
        monkeypatch,
        MAIL__TRANSPORT="file",
        MAIL__DIRECTORY="/mail",
        MAIL__FROM="a@b.example",
        MAIL__RECIPIENT_DOMAINS=f'{{"{TENANT}": ["demo.localhost"]}}',
        SECRETS__TENANT_NAMES=f'{{"{TENANT}": "DEFAULT"}}',
    )
    settings = load(Mailer)
    assert settings.mail.recipient_domains == {TENANT: ("demo.localhost",)}
    assert settings.mail.sender == "a@b.example"
    assert settings.secrets.tenant_names == {TENANT: "DEFAULT"}


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({"MAIL__TRANSPORT": "file"}, "DATARECS_MAIL__DIRECTORY"),
        ({"MAIL__HOST": "relay"}, "DATARECS_MAIL__FROM"),
        (
            {"MAIL__HOST": "relay", "MAIL__FROM": "a@b.c", "MAIL__SECURITY": "none"},
            "loopback",
        ),
    ],
)
def test_a_mail_transport_is_complete_or_refused(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], missing: str
) -> None:
    set_all(monkeypatch, **values)
    assert missing in "".join(faults_of(Mailer))


def test_the_broker_is_spoken_to_in_plain_text_in_profile_local_alone() -> None:
    assert Kafka().protocol(Profile.LOCAL) is KafkaSecurity.SASL_PLAINTEXT
    assert Kafka().protocol(Profile.SERVER) is KafkaSecurity.SASL_SSL
    declared = Kafka(security=KafkaSecurity.SASL_SSL)
    assert declared.protocol(Profile.LOCAL) is KafkaSecurity.SASL_SSL


def test_a_blob_url_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="pattern"):
        Blob(url="ftp://bucket")


@pytest.mark.case("STY-04")
@pytest.mark.parametrize("setting", describe(), ids=lambda setting: setting.name)
def test_each_setting_says_what_it_means(setting: tuple[str, str, bool, str]) -> None:
    assert setting[3].endswith(".")


@pytest.mark.case("STY-04")
def test_a_field_without_docstring_is_detected() -> None:
    class Undocumented(ServiceSettings):
        count: int = 1

    assert [row.name for row in describe(Undocumented) if not row.meaning] == ["DATARECS_COUNT"]


def test_the_names_of_the_deployment_page_exist() -> None:
    expected = """PROFILE BASE_URL DATABASE__URL DATABASE__POOL_SIZE DATABASE__STATEMENT_TIMEOUT_S
        DATABASE__RELAY__URL KAFKA__BOOTSTRAP KAFKA__SECURITY KAFKA__USERNAME
        KAFKA__PASSWORD KAFKA__CA_FILE KAFKA__RELAY__USERNAME KAFKA__RELAY__PASSWORD BLOB__URL
        SECRETS__KEK_FILE SECRETS__KEK_ID LAUNCHER__BACKEND SPARK__MODE SPARK__MASTER
        SPARK__DRIVER_MEMORY WORKER__MAX_PARALLELISM WORKER__DRAIN_S QUEUE__LEASE_TTL OUTBOX__SHARDS
        OUTBOX__RETENTION_DAYS EGRESS__ALLOWED_CIDRS__WEBHOOK EGRESS__ALLOWED_CIDRS__CONNECTION
        EGRESS__DENIED_CIDRS EGRESS__ALLOWED_PORTS EGRESS__NAT64_PREFIXES EGRESS__PROXY_URL
        FILES__ROOTS LOG__LEVEL LOG__FORMAT SIDE__PORT JAVA__HOME KAFKA__HOME JARS__MIRROR
        LIVE__NOTIFY WORKER__LANES WORKER__EXECUTION_CLASSES MAIL__FROM MAIL__PASSWORD_FILE
        DATABASE__URL_FILE"""
    assert {f"DATARECS_{name}" for name in expected.split()} <= known_names()


@pytest.mark.parametrize("classes", ["BATCH,HEAVY", '["HEAVY", "BATCH"]'])
def test_a_capture_worker_takes_the_lanes_and_classes_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, classes: str
) -> None:
    class CaptureSettings(ServiceSettings):
        worker: CaptureWorker = CaptureWorker()

    set_all(monkeypatch, WORKER__LANES="night, day", WORKER__EXECUTION_CLASSES=classes)
    worker = load(CaptureSettings).worker
    assert worker.lanes == ("night", "day")
    assert worker.execution_classes == {ExecutionClass.BATCH, ExecutionClass.HEAVY}


def test_every_section_class_stands_in_the_list_of_sections() -> None:
    nested = {"RelayDatabase", "RelayKafka", "AllowedCidrs", "MailPreview", "Argo", "Enabled"}
    nested |= {"CaptureDatabase", "WorkerOidc", "WorkerApi"}
    listed = {kind.__name__ for kind in SECTIONS.values()}
    # Of one service; `AnyWorker` has the fields of all.
    extended = {"WaitingRunLimits", "CaptureChoice", "Worker", "TokenHeaders", "SecretReferences"}
    names = {kind.__name__ for kind in Section.__subclasses__()}
    names |= {Limits.__name__, AnyWorker.__name__, "Secrets"}
    assert names - nested - extended == listed
