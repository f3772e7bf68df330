"""Connections: paths by their text, and jobs against the connections that exist."""

from dataclasses import replace

import pytest

from datarecs_core.access.references import SecretPurpose, SecretUse
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    ConnectionType,
    KafkaConfig,
    KafkaSecurity,
    RegistryConfig,
    connection_faults,
    path_fault,
    secret_uses,
    source_path_fault,
    split_broker,
)

LEDGER = Source(name="ledger", kind=SourceKind.POSTGRES, connection="pg", relation="entries")
EXPORTS = Source(name="exports", kind=SourceKind.CSV, connection="files", path="x.csv")
JOB = ReconciliationJob(name="orders", sources=(LEDGER, EXPORTS), stages=())
KNOWN = {
    "pg": ConnectionType.POSTGRES,
    "files": ConnectionType.FILES,
    "lake": ConnectionType.OBJECT_STORE,
}


@pytest.mark.parametrize(
    "path", ["exports/*.parquet", "a..b/c", "a b/ü.csv", "year=2026/x:y.csv", "100%/x.csv", "."]
)
def test_a_path_below_the_root_is_fine(path: str) -> None:
    assert path_fault(path) is None


@pytest.mark.case("X55")
@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "a/../../b",
        "..",
        "a/..",
        "..\\x",
        "%2e%2e/x",
        "a/%2E%2E/x",
        "/etc/passwd",
        "a\0b",
        "a\nb",
        "\\\\server\\share",
        "//server/share",
        "C:\\x",
        "file:///etc/passwd",
        "s3://bucket/key",
    ],
)
def test_a_path_out_of_the_root_is_refused_by_its_text(path: str) -> None:
    assert path_fault(path) is not None


def test_a_root_and_a_workstation_may_name_an_absolute_path() -> None:
    assert path_fault("/data/exports", absolute=True) is None
    assert path_fault("/data/../exports", absolute=True) is not None


def test_a_source_may_be_an_address_of_objects() -> None:
    assert source_path_fault("s3://lake/exports/*.csv") is None
    assert source_path_fault("s3://lake/../x") == "a name has no empty part and no part `.` or `..`"
    assert source_path_fault("ftp://host/x") == "write a path, not a URL"


@pytest.mark.parametrize("start", ["", "s3://lake/"])
def test_any_folders_stand_between_slashes_alone(start: str) -> None:
    for path in ("**", "**/*.csv", "a/**/b/**", "a/**"):
        assert source_path_fault(f"{start}{path}") is None
    for path in ("a**b", "a/**.csv", "***", "a/b**/c"):
        fault = source_path_fault(f"{start}{path}")
        assert fault is not None
        assert "between slashes" in fault


def test_a_job_whose_connections_fit_has_no_fault() -> None:
    in_a_store = replace(EXPORTS, connection="lake")
    assert connection_faults(JOB, KNOWN) == ()
    assert connection_faults(replace(JOB, sources=(LEDGER, in_a_store)), KNOWN) == ()


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (replace(JOB, sources=(replace(LEDGER, connection="pq"),)), SpecCode.UNKNOWN_CONNECTION),
        (
            replace(JOB, sources=(replace(LEDGER, connection="files"),)),
            SpecCode.CONNECTION_MISMATCH,
        ),
        (
            replace(JOB, sources=(replace(LEDGER, connection="lake"),)),
            SpecCode.CONNECTION_MISMATCH,
        ),
        (
            replace(JOB, sources=(replace(LEDGER, kind=SourceKind.KAFKA),)),
            SpecCode.CONNECTION_MISMATCH,
        ),
    ],
)
def test_a_connection_must_exist_and_serve_the_source(
    job: ReconciliationJob, code: SpecCode
) -> None:
    faults = connection_faults(job, KNOWN)
    assert [(fault.code, fault.path) for fault in faults] == [
        (code, ("spec", "sources", 0, "connection"))
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a.example.com:9092", ("a.example.com", 9092)), ("[2001:db8::1]:1", ("2001:db8::1", 1))],
)
def test_a_broker_is_a_host_and_a_port(text: str, parts: tuple[str, int]) -> None:
    assert split_broker(text) == parts


@pytest.mark.parametrize("text", ["a", ":9092", "a:", "a:b", "a:0", "a:65536", "::1:9092", "[a]:1"])
def test_other_texts_are_no_broker(text: str) -> None:
    with pytest.raises(ValueError, match="port"):
        split_broker(text)


def test_the_password_of_a_login_goes_to_each_broker() -> None:
    config = KafkaConfig(brokers=("B1.example.com:9093", "[::1]:9094", "[::1]:9095"), user="reader")
    assert secret_uses(config, "password") == (
        SecretUse(purpose=SecretPurpose.KAFKA, host="b1.example.com"),
        SecretUse(purpose=SecretPurpose.KAFKA, host="::1"),
    )
    without = replace(config, security=KafkaSecurity.SSL)
    assert secret_uses(without, "password") == ()


def test_the_password_of_a_registry_goes_to_its_host_alone() -> None:
    registry = RegistryConfig(url="https://Registry.example.com:8081/api", username="reader")
    config = KafkaConfig(brokers=("b1.example.com:9093",), user="reader", registry=registry)
    (use,) = secret_uses(config, "registry_password")
    assert use == SecretUse(purpose=SecretPurpose.KAFKA, host="registry.example.com")
    for without in (None, replace(registry, username=None)):
        assert secret_uses(replace(config, registry=without), "registry_password") == ()


def test_a_source_without_a_connection_is_not_resolved() -> None:
    local = replace(EXPORTS, connection=None)
    assert connection_faults(replace(JOB, sources=(local,)), {}) == ()
