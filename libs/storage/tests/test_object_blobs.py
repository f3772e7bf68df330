"""Blobs in an object store, against a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from datarecs_application.ports.outside import BlobStores
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_storage.opening import open_blob_stores
from datarecs_testing import azure_store, google_store
from datarecs_testing.azure_store import AzureServer
from datarecs_testing.certificates import an_authority
from datarecs_testing.conformance.blob_store import KEY, OTHER, ROOT, TENANT, BlobStoreConformance
from datarecs_testing.google_store import GoogleServer
from datarecs_testing.object_store import ADMIN, READER, ObjectServer
from datarecs_testing.scripted_store import BUCKET, scripted_store

pytestmark = pytest.mark.integration
SECRET = "s3cret"


def stores_at(server: ObjectServer, url: str, credentials: str = ADMIN) -> BlobStores:
    return open_blob_stores(
        url, endpoint=server.endpoint, region="us-east-1", credentials=credentials
    )


class TestObjectBlobStore(BlobStoreConformance):
    @pytest.fixture
    def stores(self, object_server: ObjectServer) -> BlobStores:
        return stores_at(object_server, f"s3://{object_server.create_folder()}/artefacts")


class TestAzureBlobStore(BlobStoreConformance):
    @pytest.fixture(params=["key", "signature"])
    def stores(self, azure_server: AzureServer, request: pytest.FixtureRequest) -> BlobStores:
        container = azure_server.create_container()
        is_key = request.param == "key"
        stores = open_blob_stores(
            f"az://{container}/artefacts",
            endpoint=azure_server.endpoint,
            credentials=azure_store.KEY if is_key else azure_store.signature(container),
        )
        stores.check_create_only()
        assert stores.ready() is None
        return stores


class TestGoogleBlobStore(BlobStoreConformance):
    @pytest.fixture
    def stores(self, google_server: GoogleServer) -> BlobStores:
        stores = open_blob_stores(
            f"gs://{google_server.create_bucket()}/artefacts",
            endpoint=google_server.endpoint,
            credentials=google_store.KEY,
        )
        stores.check_create_only()
        assert stores.ready() is None
        return stores


def test_every_key_is_below_the_prefix_of_the_address(object_server: ObjectServer) -> None:
    bucket = object_server.create_folder()
    stores_at(object_server, f"s3://{bucket}/a/b/").of(TENANT).put(KEY, b"x")
    names = [meta["path"] for page in object_server.client(bucket).list() for meta in page]
    assert names == [f"a/b/{KEY}"]
    assert list(stores_at(object_server, f"s3://{bucket}/a/bc").of(TENANT).list(ROOT)) == []


def test_a_store_with_conditional_writes_is_accepted(object_server: ObjectServer) -> None:
    stores = stores_at(object_server, f"s3://{object_server.create_folder()}")
    for _ in range(2):
        stores.check_create_only()
    assert stores.ready() is None
    assert list(stores.of(OTHER).list(f"accounts/{OTHER}/")) == []


@pytest.mark.case("S50")
def test_a_store_that_ignores_the_condition_is_refused() -> None:
    with _answering(200, {"ETag": '"1"'}) as endpoint:
        stores = open_blob_stores(
            "s3://bucket/x", endpoint=endpoint, region="us-east-1", credentials=ADMIN
        )
        with pytest.raises(BlobStoreUnavailableError, match="ignores If-None-Match"):
            stores.check_create_only()


def test_a_worker_waits_for_a_store_that_cannot_be_reached() -> None:
    stores = open_blob_stores(
        "s3://bucket/x", endpoint="http://127.0.0.1:1", region="us-east-1", credentials=ADMIN
    )
    with pytest.raises(BlobStoreUnavailableError, match="it cannot be reached") as caught:
        stores.check_create_only()
    assert caught.value.retryable
    assert stores.ready() == "it cannot be reached"
    with pytest.raises(BlobStoreUnavailableError, match="s3://bucket/x cannot be used"):
        stores.of(TENANT).get(KEY)


@pytest.mark.parametrize(
    ("url", "path", "credentials"),
    [
        ("s3://bucket/x", "", ADMIN),
        ("gs://bucket/x", "", google_store.KEY),
        ("az://bucket/x", f"/{azure_store.ACCOUNT}", azure_store.KEY),
    ],
)
def test_a_failing_store_is_named_with_its_status(url: str, path: str, credentials: str) -> None:
    with _answering(503, {}) as endpoint:
        stores = open_blob_stores(url, endpoint=f"{endpoint}{path}", credentials=credentials)
        assert stores.ready() == "it answers with status 503"


def test_a_store_behind_a_private_authority_is_verified_by_its_file(tmp_path: Path) -> None:
    authority, ca_file = an_authority(), tmp_path / "ca.crt"
    with scripted_store(authority.server(tmp_path, host="localhost")) as store:
        store.objects = {KEY: b"x"}

        def opened(pem: str | None) -> BlobStores:
            ca_file.write_text(pem or "")
            return open_blob_stores(
                f"s3://{BUCKET}",
                endpoint=store.url,
                credentials=ADMIN,
                ca_file=None if pem is None else str(ca_file),
            )

        assert opened(authority.pem).ready() is None
        assert opened(authority.pem).of(TENANT).get(KEY) == b"x"
        for pem in (None, an_authority().pem):
            strange = opened(pem)
            assert "unknown certificate authority; set DATARECS_BLOB__CA_FILE" in (
                strange.ready() or ""
            )
            with pytest.raises(BlobStoreUnavailableError, match="unknown certificate authority"):
                strange.check_create_only()
        with pytest.raises(BlobStoreUnavailableError, match="contains no certificate"):
            opened("no certificate")
    with pytest.raises(BlobStoreUnavailableError, match="cannot be read: No such file"):
        open_blob_stores("s3://bucket", credentials=ADMIN, ca_file=str(tmp_path / "missing"))


def test_a_certificate_for_another_host_is_named(tmp_path: Path) -> None:
    authority, ca_file = an_authority(), tmp_path / "ca.crt"
    ca_file.write_text(authority.pem)
    with scripted_store(authority.server(tmp_path)) as store:
        stores = open_blob_stores(
            f"s3://{BUCKET}", endpoint=store.url, credentials=ADMIN, ca_file=str(ca_file)
        )
        assert "is for another host" in (stores.ready() or "")


@pytest.mark.parametrize("credentials", ["admin-key:wrong-s3cret", "nobody:x", READER])
def test_refused_credentials_are_named_and_never_repeated(
    object_server: ObjectServer, credentials: str
) -> None:
    url = f"s3://{object_server.create_bucket('closed')}"
    stores = stores_at(object_server, url, credentials)
    assert stores.ready() == "it refuses the credentials, or they lack a permission"
    with pytest.raises(BlobStoreUnavailableError) as caught:
        stores.of(TENANT).put(KEY, b"x")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_bucket_is_named_with_its_server(object_server: ObjectServer) -> None:
    stores = stores_at(object_server, "s3://there-is-none/x")
    assert stores.ready() == (
        f"bucket there-is-none does not exist at {object_server.endpoint}; check "
        "DATARECS_BLOB__URL and DATARECS_BLOB__ENDPOINT"
    )


class _Cloud(NamedTuple):
    url: str
    endpoint: str
    credentials: str

    def stores(self, bucket: str) -> BlobStores:
        return open_blob_stores(
            f"{self.url.partition('://')[0]}://{bucket}",
            endpoint=self.endpoint,
            credentials=self.credentials,
        )


@pytest.fixture(params=["azure", "google"])
def cloud(request: pytest.FixtureRequest) -> _Cloud:
    if request.param == "azure":
        azure: AzureServer = request.getfixturevalue("azure_server")
        return _Cloud(f"az://{azure.create_container()}", azure.endpoint, azure_store.KEY)
    google: GoogleServer = request.getfixturevalue("google_server")
    return _Cloud(f"gs://{google.create_bucket()}", google.endpoint, google_store.KEY)


def test_a_missing_bucket_of_azure_and_google_is_named(cloud: _Cloud) -> None:
    stores = cloud.stores("there-is-none")
    words = f"bucket there-is-none does not exist at {cloud.endpoint}"
    assert words in (stores.ready() or "")
    with pytest.raises(BlobStoreUnavailableError, match=words):
        stores.check_create_only()
    with pytest.raises(BlobStoreUnavailableError, match=words):
        stores.of(TENANT).put(KEY, b"x")


def test_a_prefix_is_deleted_although_another_process_deletes_parts_of_it(
    cloud: _Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure answers 404 for a blob of a batch of 256, Google for one blob."""
    store = cloud.stores(cloud.url.partition("://")[2]).of(TENANT)
    for number in range(300):
        store.put(f"{ROOT}runs/1/{number:03}", b"")
    listed = list(store.list(f"{ROOT}runs/1/"))
    store.delete(listed[0].key)
    monkeypatch.setattr(store, "_walk", lambda _: iter(listed), raising=False)
    store.delete_prefix(f"{ROOT}runs/1/")
    monkeypatch.undo()
    assert list(store.list(f"{ROOT}runs/1/")) == []


@pytest.mark.parametrize(
    ("url", "credentials", "words"),
    [
        ("s3://b", None, "3 or more characters"),
        ("s3://user:s3cret@bucket", None, "credentials are not part of the address"),
        ("s3://bucket/../other", None, "no part `.` or `..`"),
        ("s3://bucket/x", "s3cret", "<access key id>:<secret access key>"),
        ("gs://bucket/x", "s3cret", "JSON key of a service account"),
        ("gs://bucket/x", '{"s3cret": 1}', "not valid"),
        ("az://bucket/x", "s3cret", "account key in base64"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(
    url: str, credentials: str | None, words: str
) -> None:
    with pytest.raises(BlobStoreUnavailableError) as caught:
        open_blob_stores(url, credentials=credentials)
    assert words in str(caught.value)
    assert SECRET not in caught.value.cause


@contextmanager
def _answering(status: int, headers: dict[str, str]) -> Iterator[str]:
    """A server that answers every request in the same way."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_HEAD = do_POST = _answer  # noqa: N815  names of the library

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
