"""What a tenant may try with a source in an object store, and what happens instead."""

import json
import socket
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from datarecs_connectors.object_stores.proxy import GuardedProxy, RefusedError, checked_address
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.access.references import SecretPurpose
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    FilesConfig,
    ObjectStoreConfig,
    secret_uses,
)
from datarecs_core.resources.object_urls import ObjectUrl
from datarecs_core.resources.resource import Kind
from datarecs_core.resources.store_servers import BucketAddress
from datarecs_specs.documents import decode_json
from datarecs_specs.reading import Surroundings as SpecSurroundings
from datarecs_testing.builders import NOON
from datarecs_testing.object_store import ADMIN, READER, ObjectServer
from datarecs_testing.scripted_store import BUCKET, scripted_store

pytestmark = pytest.mark.integration
SECRET = "s3cret"
SERVER = Policy(purpose=Purpose.CONNECTION, profile=Profile.SERVER)
LOCAL = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)


def error_of(
    config: ObjectStoreConfig | FilesConfig | None,
    path: str = "x.csv",
    *,
    credentials: str | None = None,
    policy: Policy = LOCAL,
    platform: BucketAddress | None = None,
) -> DatarecsError:
    """Of a CSV source that a worker opens and pins."""
    around = Surroundings(
        roots=(Path("/nonexistent"),), policy=policy, now=lambda: NOON, platform_bucket=platform
    )
    kind = ConnectionType.FILES if isinstance(config, FilesConfig) else ConnectionType.OBJECT_STORE
    connection = None if config is None else Connection(type=kind, config=config)
    source = Source(name="exports", kind=SourceKind.CSV, connection="c", path=path)
    secrets = {} if credentials is None else {"credentials": credentials}
    with pytest.raises(DatarecsError) as caught:
        open_connector(source, connection, secrets, surroundings=around).pin(source)
    assert SECRET not in f"{caught.value} {caught.value.__cause__}"
    return caught.value


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of the platform on the loopback; nobody may connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield server
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0"]
)
def test_an_endpoint_inside_the_platform_is_not_dialled(listener: socket.socket, host: str) -> None:
    endpoint = f"https://{host}:{listener.getsockname()[1]}"
    error = error_of(ObjectStoreConfig(url="s3://lake", endpoint=endpoint), policy=SERVER)
    assert error.code.name == "CONNECTION_FAILED"
    assert "not allowed" in str(error)


@pytest.mark.parametrize("url", ["s3://lake", "gs://lake", "az://lake"])
@pytest.mark.parametrize("host", ["169.254.169.254", "100.100.100.200", "10.0.0.7"])
def test_metadata_and_denied_networks_are_refused_for_every_kind_of_store(
    url: str, host: str
) -> None:
    policy = Policy(
        purpose=Purpose.CONNECTION,
        profile=Profile.SERVER,
        denied_cidrs=(ip_network("10.0.0.0/24"),),
    )
    config = ObjectStoreConfig(url=url, endpoint=f"https://{host}")
    error = error_of(config, policy=policy)
    assert error.code.name == "CONNECTION_FAILED"
    assert "it has an address of class" in str(error)


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://storage.example.com", "must be https"),
        ("https://storage.example.com:2375", "port 2375 is not allowed"),
        ("https://no-such-host.invalid", "the name has no address"),
    ],
)
def test_an_endpoint_without_tls_or_at_a_closed_port_is_refused(endpoint: str, words: str) -> None:
    error = error_of(ObjectStoreConfig(url="s3://lake", endpoint=endpoint), policy=SERVER)
    assert (error.code.name, words in str(error)) == ("CONNECTION_FAILED", True)


def test_a_store_cannot_redirect_to_another_server(listener: socket.socket) -> None:
    with scripted_store() as store:
        store.objects = {"x.csv": b"id\n1\n"}
        store.location = f"http://127.0.0.1:{listener.getsockname()[1]}/latest/meta-data"
        error = error_of(ObjectStoreConfig(url=f"s3://{BUCKET}", endpoint=store.url))
    assert error.code.name == "CONNECTION_FAILED"
    assert "leads to another server" in str(error)


def test_a_name_that_changes_its_address_after_the_check_is_refused(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["203.0.114.7"], ["127.0.0.1"]]

    def resolve(_host: str, *_: object, **__: object) -> list[Any]:
        current = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in current]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    endpoint = f"https://rebinding.example.com:{listener.getsockname()[1]}"
    error = error_of(ObjectStoreConfig(url="s3://lake", endpoint=endpoint), policy=SERVER)
    assert error.code.name == "CONNECTION_FAILED"
    assert "address of class loopback" in str(error)


@pytest.mark.parametrize(
    "request_line",
    ["PUT http://{} HTTP/1.1", "GET ftp://{} HTTP/1.1", "CONNECT evil.example.com:443 HTTP/1.1"],
)
def test_the_proxy_only_reads_and_only_from_the_store(
    listener: socket.socket, request_line: str
) -> None:
    host, port = listener.getsockname()
    proxy = GuardedProxy(frozenset({(host, port)}), LOCAL)
    with socket.create_connection(("127.0.0.1", int(proxy.url.rpartition(":")[2]))) as client:
        line = request_line.format(f"{host}:{port}/x")
        client.sendall(f"{line}\r\nHost: x\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 403")
    proxy.close()


def test_a_closed_proxy_accepts_nobody() -> None:
    proxy = GuardedProxy(frozenset(), LOCAL)
    port = int(proxy.url.rpartition(":")[2])
    proxy.close()
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("platform", "endpoint"),
    [
        ("https://s3.eu-central-1.amazonaws.com", "https://s3.us-east-1.amazonaws.com"),
        ("https://s3.eu-central-1.amazonaws.com", None),
        ("http://minio:9000", "https://MINIO:9000"),
    ],
)
def test_the_bucket_of_the_platform_is_closed_to_sources(
    platform: str, endpoint: str | None
) -> None:
    url = ObjectUrl.parse("s3://artefacts/runs")
    error = error_of(
        ObjectStoreConfig(url="s3://artefacts/other", endpoint=endpoint),
        credentials=ADMIN,
        platform=BucketAddress.of(url, platform),
    )
    assert error.code.name == "PATH_REFUSED"
    assert "belongs to the platform" in str(error)


@pytest.mark.parametrize(
    ("url", "path"),
    [("s3://prod", "/artefacts"), ("s3://artefacts/prod", "/lake/.."), ("s3://artefacts", "/.")],
)
def test_a_stored_endpoint_with_a_path_is_not_opened(url: str, path: str) -> None:
    with scripted_store() as store:
        store.objects = {"x.csv": b"id\n1\n"}
        error = error_of(ObjectStoreConfig(url=url, endpoint=store.url + path))
        assert error.code.name == "CONNECTION_FAILED"
        assert f"the endpoint has the path {path}; write {store.url}" in str(error)
        assert store.requests == []


@pytest.mark.parametrize("platform_host", ["127.0.0.1", "localhost", "platform.example.com"])
@pytest.mark.parametrize("host", ["127.0.0.2", "store.example.com", "artefacts.example.com"])
def test_the_server_of_the_platform_under_another_name_or_port_is_not_dialled(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, host: str, platform_host: str
) -> None:
    answers = {
        "127.0.0.2": "127.0.0.2",
        "store.example.com": "203.0.114.7" if platform_host[0] == "p" else "127.0.0.1",
        "artefacts.example.com": "203.0.114.7" if platform_host[0] == "p" else "127.0.0.1",
        "platform.example.com": "203.0.114.7" if host[0] != "1" else "127.0.0.1",
    }

    def resolve(name: str, *_: object, **__: object) -> list[Any]:
        answer = answers.get(name, "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    bucket = "prod" if host.startswith("artefacts") else "artefacts"
    error = error_of(
        ObjectStoreConfig(
            url=f"s3://{bucket}", endpoint=f"https://{host}:{listener.getsockname()[1]}"
        ),
        platform=BucketAddress(host=platform_host, bucket="artefacts"),
    )
    assert error.code.name == "CONNECTION_FAILED"
    assert "the bucket belongs to the platform" in str(error)


def test_an_address_of_this_machine_counts_as_its_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound: list[str] = []

    class Probe(socket.socket):
        def bind(self, address: Any) -> None:  # noqa: ANN401  as the class it replaces
            bound.append(address[0])
            if address[0] != "10.77.20.1":
                raise OSError

    monkeypatch.setattr("datarecs_connectors.object_stores.proxy.socket.socket", Probe)
    with pytest.raises(RefusedError, match="belongs to the platform"):
        checked_address(("10.77.20.1", 18444), LOCAL, "127.0.0.1")
    assert checked_address(("10.77.20.9", 18444), LOCAL, "127.0.0.1") == "10.77.20.9"
    assert bound == ["10.77.20.1", "10.77.20.9"]


def test_a_bucket_of_another_name_at_the_server_of_the_platform_is_read() -> None:
    with scripted_store() as store:
        store.objects = {"x.csv": b"id\n1\n"}
        around = Surroundings(
            roots=(),
            policy=LOCAL,
            now=lambda: NOON,
            platform_bucket=BucketAddress(host="127.0.0.1", bucket="artefacts"),
        )
        config = ObjectStoreConfig(url=f"s3://{BUCKET}", endpoint=store.url)
        lake = Connection(type=ConnectionType.OBJECT_STORE, config=config)
        source = Source(name="exports", kind=SourceKind.CSV, connection="c", path="x.csv")
        open_connector(source, lake, {}, surroundings=around).pin(source)
        assert store.requests


def test_the_identity_of_the_worker_is_never_used(
    object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_server.create_bucket("closed")
    object_server.client(bucket).put("x.csv", b"id\n1\n")
    key, _, secret = ADMIN.partition(":")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    config = ObjectStoreConfig(url=f"s3://{bucket}", endpoint=object_server.endpoint)
    assert error_of(config).code.name == "PERMISSION_DENIED"
    assert error_of(config, credentials=READER).code.name == "PERMISSION_DENIED"


@pytest.mark.parametrize("credentials", ["admin-key:wrong-s3cret", "s3cret", ":s3cret", ""])
def test_no_error_repeats_credentials(object_server: ObjectServer, credentials: str) -> None:
    bucket = object_server.create_bucket("closed")
    config = ObjectStoreConfig(url=f"s3://{bucket}", endpoint=object_server.endpoint)
    code = error_of(config, credentials=credentials).code.name
    assert code in {"PERMISSION_DENIED", "CONNECTION_FAILED"}


@pytest.mark.parametrize(
    ("url", "credentials"),
    [
        ("gs://lake", '{"private_key": "s3cret"}'),
        ("gs://lake", "s3cret"),
        ("az://lake", "not base64 s3cret"),
        ("az://lake", "?sv=1&sig=s3cret"),
    ],
)
def test_no_error_of_another_kind_of_store_repeats_credentials(url: str, credentials: str) -> None:
    with scripted_store() as store:
        store.location = "http://127.0.0.1:1/"
        config = ObjectStoreConfig(url=url, endpoint=store.url)
        assert error_of(config, credentials=credentials).code.name == "CONNECTION_FAILED"


@pytest.mark.parametrize(
    "path",
    [
        "../other/x.csv",
        "a/../../x.csv",
        "..",
        "%2e%2e/x.csv",
        "/etc/passwd",
        "file:///etc/passwd",
        "x\0.csv",
        "s3://lake/exports/../secret/x.csv",
        "s3://lake/secret/x.csv",
        "s3://lake/exports2/x.csv",
        "s3://lake",
        "s3://other/exports/x.csv",
        "gs://lake/exports/x.csv",
        "s3://user:s3cret@lake/exports/x.csv",
        "S3://lake/exports/x.csv",
    ],
)
def test_a_path_cannot_leave_the_address_of_its_connection(path: str) -> None:
    with scripted_store() as store:
        store.objects = {"secret/x.csv": b"id\n1\n", "exports2/x.csv": b"id\n1\n"}
        config = ObjectStoreConfig(url="s3://lake/exports", endpoint=store.url)
        assert error_of(config, path).code.name == "PATH_REFUSED"
        assert store.requests == []


def test_an_address_needs_a_connection_of_its_type_on_a_server(tmp_path: Path) -> None:
    path = "s3://lake/x.csv"
    assert error_of(None, path).code.name == "CONNECTION_FAILED"
    around = Surroundings(roots=(tmp_path,), policy=SERVER, now=lambda: NOON)
    files = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
    source = Source(name="exports", kind=SourceKind.CSV, connection="c", path=path)
    with pytest.raises(DatarecsError) as caught:
        open_connector(source, files, {}, surroundings=around).pin(source)
    assert caught.value.code.name == "PATH_REFUSED"


def test_a_job_with_an_address_and_no_connection_is_refused_by_a_server() -> None:
    sources = [
        {"name": name, "kind": "csv", "path": f"s3://lake/{name}.csv"} for name in ("a", "b")
    ]
    stage = {"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}
    document = {
        "apiVersion": "datarecs.io/v1",
        "kind": Kind.RECONCILIATION_JOB.value,
        "metadata": {"name": "job"},
        "spec": {"sources": sources, "stages": [stage]},
    }
    faults = decode_json(document, surroundings=SpecSurroundings(on_server=True)).faults
    assert [fault.message for fault in faults if not fault.warning] == [
        "a server needs 'connection' to read files"
    ] * 2


def test_a_credential_is_bound_to_the_host_of_the_endpoint() -> None:
    for endpoint, host in (
        ("https://Minio.example.com:9000", "minio.example.com"),
        (None, "s3.eu-central-1.amazonaws.com"),
    ):
        config = ObjectStoreConfig(url="s3://lake", endpoint=endpoint, region="eu-central-1")
        (use,) = secret_uses(config, "credentials")
        assert (use.purpose, use.host) == (SecretPurpose.OBJECT_STORE, host)


def test_a_key_in_clear_is_refused_and_not_repeated() -> None:
    for config in (
        {"url": "s3://lake", "secret_access_key": SECRET},
        {"url": f"s3://key:{SECRET}@lake"},
        {"url": "s3://lake", "endpoint": f"https://key:{SECRET}@minio.example.com"},
    ):
        document = {
            "apiVersion": "datarecs.io/v1",
            "kind": "Connection",
            "metadata": {"name": "lake"},
            "spec": {"type": "object_store", "config": config},
        }
        faults = decode_json(document).faults
        assert faults
        assert SECRET not in json.dumps([[fault.message, fault.hint] for fault in faults])
