"""Profile `server` refuses unsafe settings before a service is built: every fault at once."""

import base64
import ssl
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_core.errors.process import InsecureStartError
from datarecs_runtime.api_sections import Api
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.certificates import certificate_fault, server_context
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.platform_addresses import addresses_of, database_clients
from datarecs_runtime.sections import Database, Egress, Files, Kafka, Links, Mail, Secrets
from datarecs_runtime.server_rules import refuse_insecure_settings
from datarecs_runtime.settings import ServiceSettings, load
from datarecs_testing.certificates import an_authority

PASSWORD = "4Z1r7bqWn0xU"
KEK = base64.b64encode(bytes(range(32))).decode()


class Settings(ServiceSettings):
    """Sections of all services, so that every rule applies."""

    database: Database
    """Login."""
    api: Api = Api()
    """Address."""
    blob: Blob
    """Store."""
    kafka: Kafka = Kafka()
    """Broker."""
    secrets: Secrets = Secrets()
    """Keys."""
    egress: Egress = Egress()
    """Addresses."""
    files: Files = Files()
    """Folders."""
    links: Links = Links()
    """Links."""
    mail: Mail
    """Relay."""


class Controller(ServiceSettings):
    """A service without links, keys and sources."""

    database: Database
    """Login."""
    kafka: Kafka = Kafka()
    """Broker."""


SAFE: Mapping[str, str] = {
    "DATARECS_BASE_URL": "https://recs.example.com",
    "DATARECS_DATABASE__URL": f"postgresql://datarecs_api:{PASSWORD}@db.example.com/datarecs"
    "?sslmode=verify-full",
    "DATARECS_API__TRUSTED_PROXIES": "10.0.0.0/8",
    "DATARECS_KAFKA__BOOTSTRAP": "kafka.example.com:9093",
    "DATARECS_KAFKA__PASSWORD": PASSWORD,
    "DATARECS_SECRETS__KEK": KEK,
    "DATARECS_LINKS__KEY": "0123456789abcdef0123456789abcdef",
    "DATARECS_EGRESS__DENIED_CIDRS": "10.20.0.0/16",
    "DATARECS_BLOB__URL": "s3://artefacts/prod",
    "DATARECS_BLOB__ENDPOINT": "https://store.example.com:9000",
    "DATARECS_MAIL__HOST": "relay.example.com",
    "DATARECS_MAIL__FROM": "datarecs@example.com",
}
ADDRESSES = {
    "db.example.com": "10.20.0.5",
    "kafka.example.com": "10.20.0.6",
    "store.example.com": "10.20.0.7",
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    for name, value in SAFE.items():
        monkeypatch.setenv(name, value)
    # No name is resolved outside of this machine.
    resolve = {name: addresses_of(address) for name, address in ADDRESSES.items()}
    for module in ("server_rules", "platform_addresses"):
        monkeypatch.setattr(
            f"datarecs_runtime.{module}.addresses_of",
            lambda host: resolve.get(host) or addresses_of(host),
        )


def faults(kind: type[ServiceSettings] = Settings) -> list[str]:
    try:
        refuse_insecure_settings(load(kind))
    except InsecureStartError as refusal:
        lines = [str(fault) for fault in refusal.faults]
        return ["a password is shown"] if PASSWORD in str(refusal) else lines
    return []


def test_safe_settings_have_no_fault() -> None:
    assert faults() == []


@pytest.mark.case("X91")
@pytest.mark.parametrize(
    ("setting", "value", "rule", "seen"),
    [
        ("API__TRUSTED_PROXIES", "", "S2", "neither TLS nor a declared proxy"),
        ("API__TRUSTED_PROXIES", "10.0.0.0/8,0.0.0.0/0", "S2", "8, 0.0.0.0/0, so"),
        ("API__TRUSTED_PROXIES", "::/0", "S2", "contains ::/0"),
        ("API__TRUSTED_PROXIES", "0.0.0.0/1,128.0.0.0/1", "S2", "contains 0.0.0.0/1, 128.0.0.0/1"),
        ("API__TRUSTED_PROXIES", "10.0.0.0/8,0.0.0.0/2,64.0.0.0/3,96.0.0.0/3", "S2", "every"),
        ("API__TRUSTED_PROXIES", "::/1", "S2", "contains ::/1"),
        ("API__TRUSTED_PROXIES", "3000::/4", "S2", "contains 3000::/4"),
        ("BASE_URL", "", "S3", "DATARECS_BASE_URL is missing"),
        ("BASE_URL", "http://recs.example.com", "S3", "not the https address"),
        ("BASE_URL", "https://ana@recs.example.com", "S3", "not the https address"),
        ("BASE_URL", "https://recs.example.com?x=1", "S3", "not the https address"),
        ("BASE_URL", "https://[recs", "S3", "not the https address"),
        ("SECRETS__KEK", "", "S6", "KEK is missing"),
        ("SECRETS__KEK", "c2hvcnQ=", "S6", "not base64 of 32 bytes"),
        ("SECRETS__KEK_ID", "local-1", "S6", "key of `datarecs up`"),
        ("SECRETS__KEK", base64.b64encode(bytes(32)).decode(), "S13", "all bytes are equal"),
        ("KAFKA__SECURITY", "SASL_PLAINTEXT", "S7", "not encrypted"),
        ("EGRESS__DENIED_CIDRS", "10.20.0.6/31", "S8", "db.example.com of the platform"),
        (
            "EGRESS__DENIED_CIDRS",
            "10.20.0.5/32,10.20.0.7/32",
            "S8",
            "kafka.example.com of the platform",
        ),
        ("EGRESS__DENIED_CIDRS", "10.20.0.4/31,10.20.0.6/32", "S8", "store.example.com of the"),
        ("BLOB__ENDPOINT", "https://10.77.20.1:9000", "S8", "10.77.20.1 of the platform"),
        ("FILES__ROOTS", "lake", "S9", "lake of DATARECS_FILES__ROOTS can be written"),
        ("SIDE__HOST", "8.8.8.8", "S12", "public address 8.8.8.8"),
        ("KAFKA__PASSWORD", "changeme", "S13", "KAFKA__PASSWORD is a password of examples"),
        ("KAFKA__RELAY__PASSWORD", "Secret", "S13", "KAFKA__RELAY__PASSWORD is a password"),
        ("MAIL__PASSWORD", "password", "S13", "MAIL__PASSWORD is a password of examples"),
        ("LINKS__KEY", KEK, "S13", "DATARECS_LINKS__KEY equals the key-encryption key"),
        ("LINKS__KEY", "k" * 32, "S13", "DATARECS_LINKS__KEY is not random"),
        (
            "DATABASE__URL",
            f"postgresql://api:{PASSWORD}@db.example.com/datarecs",
            "S14",
            "does not check the certificate of db.example.com",
        ),
        (
            "DATABASE__URL",
            f"postgresql://api:{PASSWORD}@db.example.com/datarecs?sslmode=require",
            "S14",
            "does not check the certificate of db.example.com",
        ),
        (
            "DATABASE__URL",
            "postgresql://postgres:postgres@db.example.com/datarecs?sslmode=verify-ca",
            "S13",
            "the password in DATARECS_DATABASE__URL is a password of examples",
        ),
        (
            "DATABASE__RELAY__URL",
            f"postgresql://relay:{PASSWORD}@127.0.0.1,db.example.com:5433/datarecs",
            "S14",
            "DATARECS_DATABASE__RELAY__URL does not check the certificate of db.example.com",
        ),
    ],
)
def test_a_broken_rule_is_named_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: str, rule: str, seen: str
) -> None:
    monkeypatch.setenv(f"DATARECS_{setting}", value)
    (fault,) = faults()
    assert fault.startswith(f"{rule}: ")
    assert seen in fault
    assert len(fault.partition("; ")[2]) > 10


@pytest.mark.case("X91")
def test_all_faults_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SAFE:
        if "_MAIL__" not in name and name != "DATARECS_BLOB__URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("DATARECS_DATABASE__URL", "postgresql://a:admin@db.example.com/x")
    monkeypatch.setenv("DATARECS_KAFKA__BOOTSTRAP", "kafka.example.com:9092")
    monkeypatch.setenv("DATARECS_KAFKA__SECURITY", "SASL_PLAINTEXT")
    rules = [fault.partition(":")[0] for fault in faults()]
    assert rules == ["S2", "S3", "S6", "S7", "S8", "S8", "S13", "S14"]


def test_the_public_address_of_a_provider_is_shared_with_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATARECS_BLOB__ENDPOINT", "https://8.8.8.8")
    assert faults() == []


def test_profile_local_has_none_of_these_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATARECS_PROFILE", "local")
    monkeypatch.setenv("DATARECS_BASE_URL", "http://127.0.0.1:8080")
    monkeypatch.setenv("DATARECS_API__TRUSTED_PROXIES", "")
    assert faults() == []


def test_a_service_is_checked_for_its_sections_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE_URL", "API__TRUSTED_PROXIES", "SECRETS__KEK"):
        monkeypatch.delenv(f"DATARECS_{name}")
    assert faults(Controller) == []


@pytest.mark.parametrize("place", [".datarecs/secrets/kek", "data/secrets/kek"])
def test_the_key_in_a_data_directory_of_up_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(KEK)
    (path.parent.parent / "state.json").touch()
    monkeypatch.delenv("DATARECS_SECRETS__KEK")
    monkeypatch.setenv("DATARECS_SECRETS__KEK_FILE", str(path))
    (fault,) = faults()
    assert fault.startswith("S6: DATARECS_SECRETS__KEK is the key of `datarecs up` on one machine")


def test_libpq_may_get_tls_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATARECS_DATABASE__URL", f"postgresql://a:{PASSWORD}@db.example.com/x")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert faults() == []


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://a:b@[::1]:5432/x", ["::1"]),
        ("postgresql://a:b@h1:1,h2:2/x", ["h1", "h2"]),
        ("postgresql:///x?host=/run/postgresql", ["/run/postgresql"]),
        ("postgresql://a@%2Frun%2Fpostgresql/x", ["/run/postgresql"]),
        ("postgresql:///x", [""]),
        ("postgresql://[broken", []),
    ],
)
def test_hosts_of_a_database_url(url: str, hosts: list[str]) -> None:
    database = Database.model_validate({"url": url})
    assert [client.host for client in database_clients(database)] == hosts


def test_a_database_on_this_machine_needs_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("127.0.0.1", "[::1]:5433", ""):
        monkeypatch.setenv("DATARECS_DATABASE__URL", f"postgresql://a:{PASSWORD}@{place}/x")
        assert faults() == []


class TestCertificates:
    def test_built_in_tls_needs_no_proxy(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        an_authority().server(tmp_path)
        (pem,) = tmp_path.glob("*.pem")
        monkeypatch.delenv("DATARECS_API__TRUSTED_PROXIES")
        monkeypatch.setenv("DATARECS_API__TLS_CERT_FILE", str(pem))
        monkeypatch.setenv("DATARECS_API__TLS_KEY_FILE", str(pem))
        assert faults() == []

    @pytest.mark.parametrize("broken", ["missing", "empty", "foreign", "expired"])
    def test_a_certificate_that_no_client_can_use_is_refused(
        self, tmp_path: Path, broken: str
    ) -> None:
        valid = timedelta(days=1) if broken == "expired" else timedelta(days=36500)
        an_authority().server(tmp_path, valid=valid)
        (certificate,) = tmp_path.glob("*.pem")
        key = certificate
        if broken == "missing":
            key = tmp_path / "none.key"
        elif broken == "empty":
            certificate.write_text("")
        elif broken == "foreign":
            other = tmp_path / "other"
            other.mkdir()
            an_authority().server(other)
            (key,) = other.glob("*.pem")
        fault = certificate_fault(certificate, key, now=SystemClock().now()) or ""
        assert str(certificate) in fault
        assert ("expired on 2020-01-02" in fault) is (broken == "expired")

    def test_only_one_of_the_files_is_refused(self) -> None:
        with pytest.raises(ValueError, match="both or none"):
            Api.model_validate({"tls_cert_file": "/x.pem"})

    def test_old_protocols_are_off(self, tmp_path: Path) -> None:
        an_authority().server(tmp_path)
        (pem,) = tmp_path.glob("*.pem")
        context = server_context(pem, pem)
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
