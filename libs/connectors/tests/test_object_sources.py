"""Sources in object stores: the suite of file connectors over a real server, and what differs."""

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from datarecs_application.ports.comparing import Connector, HeldPin, ProbeStep, Read
from datarecs_application.ports.outside import BlobStore
from datarecs_connectors.errors import ConnectionFailedError, NoFilesError
from datarecs_connectors.file_tree import Allowed, FileTree
from datarecs_connectors.object_stores import bucket as bucket_module
from datarecs_connectors.object_stores import tree as tree_module
from datarecs_connectors.object_stores.opening import StoreRules, open_connected
from datarecs_connectors.object_stores.tree import ObjectTree
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import FileList, Pin, Scan, SourceSchema
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    IcebergConfig,
    ObjectStoreConfig,
)
from datarecs_core.resources.connection import SqlCatalog as DeclaredSqlCatalog
from datarecs_core.resources.object_urls import ObjectUrl
from datarecs_storage.opening import open_blob_stores
from datarecs_testing import azure_store, google_store
from datarecs_testing.builders import NOON
from datarecs_testing.certificates import an_authority
from datarecs_testing.conformance.blob_store import ROOT, TENANT
from datarecs_testing.conformance.connector import (
    FileConnectorConformance,
    Rows,
    delivered,
    scan_of,
)
from datarecs_testing.google_store import GoogleServer
from datarecs_testing.object_store import ADMIN, ObjectServer
from datarecs_testing.scripted_store import BUCKET, ScriptedStore, scripted_store

pytestmark = pytest.mark.integration
LOCAL = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
RULES = StoreRules(policy=LOCAL, is_guarded=True, platform_bucket=None)


def around(folder: Path, *, any_path: bool = False) -> Surroundings:
    return Surroundings(roots=(folder,), policy=LOCAL, now=lambda: NOON, any_path=any_path)


def a_connection(url: str, **fields: str) -> Connection:
    return Connection(type=ConnectionType.OBJECT_STORE, config=ObjectStoreConfig(url=url, **fields))


@dataclass(kw_only=True)
class Mirror:
    """A bucket with the files of a folder."""

    folder: Path
    client: S3Store
    prefix: str = "exports"
    stored: dict[str, bytes] = field(default_factory=dict)

    def sync(self) -> None:
        files = {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }
        for name in self.stored.keys() - files.keys():
            self.client.delete(f"{self.prefix}/{name}")
        for name, data in files.items():
            if self.stored.get(name) != data:
                self.client.put(f"{self.prefix}/{name}", data)
        self.stored = files


@dataclass(kw_only=True)
class MirroredPin:
    inner: HeldPin
    mirror: Mirror

    @property
    def pin(self) -> Pin:
        return self.inner.pin

    def check(self) -> Pin:
        self.mirror.sync()
        return self.inner.check()

    def close(self) -> None:
        self.inner.close()


@dataclass(kw_only=True)
class MirroredConnector:
    """A connector that sees the current files of the folder."""

    inner: Connector
    mirror: Mirror

    def pin(self, source: Source) -> HeldPin:
        self.mirror.sync()
        return MirroredPin(inner=self.inner.pin(source), mirror=self.mirror)

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        return self.inner.describe(source, pin)

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        self.mirror.sync()
        return self.inner.rows(scan)

    def extract(self, scan: Scan, directory: str, progress: Callable[[Read], None]) -> Scan:
        return self.inner.extract(scan, directory, progress)

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:
        self.mirror.sync()
        return self.inner.probe(source)

    def close(self) -> None:
        self.inner.close()


class _InAStore(FileConnectorConformance):
    @pytest.fixture(autouse=True)
    def _store(self, object_server: ObjectServer, tmp_path: Path) -> None:
        bucket = object_server.create_folder()
        self.mirror = Mirror(folder=tmp_path, client=object_server.client(bucket))
        self.connection = a_connection(f"s3://{bucket}/exports", endpoint=object_server.endpoint)

    def connect(self, folder: Path, source: Source) -> Connector:
        secrets = {"credentials": ADMIN}
        made = open_connector(source, self.connection, secrets, surroundings=around(folder))
        return MirroredConnector(inner=made, mirror=self.mirror)


class TestCsv(_InAStore):
    kind, suffix, broken = SourceKind.CSV, "csv", b'id,word\n4,"a\n'

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([names, *rows])


class TestPackedCsv(_InAStore):
    kind, suffix, broken = SourceKind.CSV, "csv.gz", gzip.compress(b'id,word\n4,"a\n')

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([names, *rows])


class TestJson(_InAStore):
    kind, suffix, broken = SourceKind.JSON, "jsonl", b'{"id": 4, "word": "a"}\n{"id": 5'

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class TestParquet(_InAStore):
    kind, suffix, broken = SourceKind.PARQUET, "parquet", b"PAR1 and no more"

    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        columns = [pa.array([row[0] for row in rows]), pa.array([row[1] for row in rows])]
        pq.write_table(pa.Table.from_arrays(columns, names=list(names)), path)


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """An empty bucket at an emulator of a provider."""

    url: str
    endpoint: str
    secrets: tuple[str, ...]
    """Each of them may read and write."""

    @property
    def store(self) -> BlobStore:
        stores = open_blob_stores(self.url, endpoint=self.endpoint, credentials=self.secrets[0])
        return stores.of(TENANT)

    def open(self, kind: SourceKind, path: str, secret: str | None) -> tuple[Connector, Source]:
        source = Source(name="s", kind=kind, connection="c", path=path)
        connection = a_connection(f"{self.url}/accounts", endpoint=self.endpoint)
        secrets = {} if secret is None else {"credentials": secret}
        around_it = around(Path("/nonexistent"))
        return open_connector(source, connection, secrets, surroundings=around_it), source


@pytest.fixture(params=["azure", "google"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    if request.param == "azure":
        azure: azure_store.AzureServer = request.getfixturevalue("azure_server")
        container = azure.create_container()
        return Cloud(
            url=f"az://{container}",
            endpoint=azure.endpoint,
            secrets=(azure_store.KEY, azure_store.signature(container)),
        )
    return _google(request.getfixturevalue("google_server"))


def _google(server: GoogleServer) -> Cloud:
    return Cloud(
        url=f"gs://{server.create_bucket()}",
        endpoint=server.endpoint,
        secrets=(google_store.KEY,),
    )


def test_rows_are_read_from_azure_and_google(cloud: Cloud, tmp_path: Path) -> None:
    store = cloud.store
    pq.write_table(pa.table({"id": [1], "word": ["one"]}), tmp_path / "x.parquet")
    store.put_file(f"{ROOT}x.parquet", str(tmp_path / "x.parquet"))
    store.put(f"{ROOT}y.csv", b"id,word\n1,one\n")
    store.put(f"{ROOT}z.jsonl", b'{"id": 1, "word": "one"}\n')
    paths = {SourceKind.PARQUET: "*/x.parquet", SourceKind.CSV: "*/*.csv", SourceKind.JSON: "*/z*"}
    for kind, path in paths.items():
        for secret in cloud.secrets:
            connector, source = cloud.open(kind, path, secret)
            assert delivered(connector, scan_of(connector, source)) == [("1", "one")]
            connector.close()


def test_a_changed_or_removed_object_of_azure_and_google_loses_the_snapshot(cloud: Cloud) -> None:
    store = cloud.store
    store.put(f"{ROOT}y.csv", b"id\n1\n")
    connector, source = cloud.open(SourceKind.CSV, "*/*.csv", cloud.secrets[0])
    held = connector.pin(source)
    store.put(f"{ROOT}y.csv", b"id\n2\n")
    _assert_lost(held.check)
    _assert_lost(lambda: connector.describe(source, held.pin))
    store.delete(f"{ROOT}y.csv")
    _assert_lost(held.check)
    _assert_lost(lambda: connector.describe(source, held.pin))
    connector.close()


def _assert_lost(act: Callable[[], object]) -> None:
    with pytest.raises(DatarecsError, match=r"y\.csv") as caught:
        act()
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_a_missing_bucket_of_azure_and_google_is_named(cloud: Cloud) -> None:
    missing = replace(cloud, url=f"{cloud.url}-missing")
    connector, source = missing.open(SourceKind.CSV, "*.csv", cloud.secrets[0])
    bucket = ObjectUrl.parse(missing.url).bucket
    with pytest.raises(ConnectionFailedError) as caught:
        connector.pin(source)
    assert f"bucket {bucket} does not exist at {cloud.endpoint}" in str(caught.value)
    connector.close()


def test_without_credentials_no_token_is_requested_from_google(google_server: GoogleServer) -> None:
    cloud = _google(google_server)
    cloud.store.put(f"{ROOT}y.csv", b"id\n1\n")
    connector, source = cloud.open(SourceKind.CSV, "*/*.csv", None)
    assert delivered(connector, scan_of(connector, source)) == [("1",)]
    connector.close()


@dataclass(kw_only=True)
class Lake:
    """A bucket with objects, and how a job reads it."""

    server: ObjectServer
    bucket: str
    folder: Path

    @property
    def client(self) -> S3Store:
        return self.server.client(self.bucket)

    @property
    def connection(self) -> Connection:
        return a_connection(f"s3://{self.bucket}", endpoint=self.server.endpoint)

    def open(self, kind: SourceKind, path: str) -> tuple[Connector, Source]:
        source = Source(name="s", kind=kind, connection="c", path=path)
        secrets = {"credentials": ADMIN}
        made = open_connector(source, self.connection, secrets, surroundings=around(self.folder))
        return made, source

    def tree(self, prefix: str = "") -> ObjectTree:
        url = f"s3://{self.bucket}/{prefix}".rstrip("/")
        config = ObjectStoreConfig(url=url, endpoint=self.server.endpoint)
        bucket = open_connected("s", config, {"credentials": ADMIN}, RULES)
        return ObjectTree(bucket=bucket, root=ObjectUrl.parse(url), now=lambda: NOON)


@pytest.fixture
def lake(object_server: ObjectServer, tmp_path: Path) -> Lake:
    return Lake(server=object_server, bucket=object_server.create_folder(), folder=tmp_path)


NAMES = (
    "a.csv",
    "b.csv",
    "c.txt",
    "_SUCCESS",
    "day/_SUCCESS",
    "day/1.csv",
    "day/deep/2.csv",
    "day/_tmp/3.csv",
    "day/.hidden/4.csv",
    "days/5.csv",
    "day=1/6.csv",
    "day=2/7.csv",
    "odd [1]/8.csv",
    "a%20b#c?.csv",
)
PATHS = (
    "a.csv",
    "*",
    "*.csv",
    "day",
    "day/",
    "day/*",
    "day/*.csv",
    "day*/*.csv",
    "day=*",
    "*/deep/2.csv",
    "day/_tmp/3.csv",
    "day/_tmp",
    "day/_SUCCESS",
    "?.csv",
    "[ab].csv",
    "none",
    "none*",
    "day/a.csv",
    "**",
    "**/*.csv",
    "**/2.csv",
    "**/_tmp/*",
    "**/_SUCCESS",
    "day/**",
    "day/**/*.csv",
    "*/**/deep/*",
    "**/deep/**/?.csv",
    "day/1.csv/**",
    "a**.csv",
)


def test_a_path_names_the_same_files_in_a_store_and_in_a_folder(lake: Lake) -> None:
    for name in NAMES:
        (lake.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (lake.folder / name).write_bytes(b"x")
        lake.client.put(name, b"x")
    allowed = Allowed(source="s", roots=(lake.folder,), now=lambda: NOON)
    folder, tree = FileTree.below(".", allowed), lake.tree()
    assert {path: _names(tree, path) for path in PATHS} == {
        path: _names(folder, path) for path in PATHS
    }


def _names(tree: FileTree | ObjectTree, path: str) -> list[str] | str:
    try:
        return tree.find(path)
    except DatarecsError as error:
        return error.code.name


def test_an_object_that_marks_a_folder_is_no_file(lake: Lake) -> None:
    lake.client.put("day/deep/1.csv", b"x")
    with scripted_store() as store:
        store.objects = {"day": b"", "day/1.csv": b"x", "deep/er": b"", "deep/er/more/2.csv": b"x"}
        config = ObjectStoreConfig(url=f"s3://{BUCKET}", endpoint=store.url)
        bucket = open_connected("s", config, {}, RULES)
        tree = ObjectTree(bucket=bucket, root=ObjectUrl.parse(f"s3://{BUCKET}"), now=lambda: NOON)
        assert tree.find("*") == ["day/1.csv", "deep/er/more/2.csv"]
        tree.close()


def test_a_path_may_be_the_whole_address(lake: Lake) -> None:
    for name in ("exports/a.csv", "exports2/a.csv"):
        lake.client.put(name, b"x")
    tree = lake.tree("exports")
    assert tree.find(f"s3://{lake.bucket}/exports/*.csv") == ["a.csv"]
    assert tree.find(f"s3://{lake.bucket}/exports") == ["a.csv"]


@dataclass
class Reads:
    """Ranges that were requested, by object."""

    spans: list[tuple[str, int]] = field(default_factory=list)

    def get(self, store: Any, path: str, *, options: Any) -> Any:  # noqa: ANN401  passed on
        start, end = options["range"]
        self.spans.append((path, end - start))
        return obstore.get(store, path, options=options)

    @property
    def total(self) -> int:
        return sum(size for _, size in self.spans)


def test_of_a_parquet_file_only_the_pages_of_needed_columns_are_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 100_000
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "word": pa.array([f"{at * 2_654_435_761 % 2**32:032x}" for at in range(rows)]),
        }
    )
    pq.write_table(table, lake.folder / "x.parquet", compression="none", row_group_size=25_000)
    size = (lake.folder / "x.parquet").stat().st_size
    lake.client.put("x.parquet", lake.folder / "x.parquet")
    connector, source = lake.open(SourceKind.PARQUET, "x.parquet")
    reads = Reads()
    monkeypatch.setattr(bucket_module, "obstore", _Patched(reads))
    scan = scan_of(connector, source)
    assert reads.total <= 64 * 1024
    scan = replace(scan, columns=(scan.column("id"),))
    brought = connector.extract(scan, str(lake.folder / "out"), lambda _: None)
    assert brought.extract is not None
    assert brought.extract.rows == rows
    assert size > 4_000_000
    assert reads.total < size / 2
    (file,) = brought.extract.files
    values = pq.read_table(Path(brought.extract.root) / file.path)
    assert values.column("id").to_pylist() == list(range(rows))


@pytest.mark.parametrize("kind", [SourceKind.CSV, SourceKind.JSON])
def test_a_text_file_is_read_once_for_types_and_once_for_rows(
    lake: Lake, kind: SourceKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, name = range(150_000), f"x.{kind.value}"
    is_csv = kind is SourceKind.CSV
    lines = ["id,word"] if is_csv else []
    lines += [f"{at},word{at}" if is_csv else f'{{"id": {at}, "word": "w{at}"}}' for at in rows]
    lake.client.put(name, "\n".join(lines).encode())
    size = lake.client.head(name)["size"]
    connector, source = lake.open(kind, name)
    reads = Reads()
    monkeypatch.setattr(bucket_module, "obstore", _Patched(reads))
    scan = scan_of(connector, source)
    connector.extract(scan, str(lake.folder / "out"), lambda _: None)
    assert size > 2_000_000
    assert reads.total < size * 2.5  # and the first 128 KiB, for delimiter and header


class _Patched:
    """obstore with recorded reads."""

    def __init__(self, reads: Reads) -> None:
        self.get, self.list, self.head = reads.get, obstore.list, obstore.head


@pytest.mark.parametrize("size", [0, 1, 70_000, 300_000])
def test_a_file_is_read_in_order_and_at_any_position(lake: Lake, size: int) -> None:
    data = bytes(at % 251 for at in range(size))
    lake.client.put("x", data)
    with lake.tree().open("x") as file:
        assert file.seek(0, 2) == size
        file.seek(0)
        assert b"".join(iter(lambda: file.read(10_000), b"")) == data
        for at in (0, size // 2, max(size - 1, 0), size, size + 10):
            file.seek(at)
            assert file.read(7) == data[at : at + 7]


@pytest.mark.parametrize("name", ["x.csv", "x.json"])
@pytest.mark.parametrize("removed", [False, True])
def test_an_object_that_changes_before_it_is_read_loses_the_snapshot(
    lake: Lake, name: str, *, removed: bool
) -> None:
    lake.client.put(name, b'{"id": 1}\n')
    connector, source = lake.open(SourceKind(name.removeprefix("x.")), name)
    pin = connector.pin(source).pin
    lake.client.delete(name) if removed else lake.client.put(name, b'{"id": 2}\n')
    with pytest.raises(DatarecsError, match=name) as caught:
        connector.describe(source, pin)
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_a_parquet_file_that_changes_while_it_is_read_loses_the_snapshot(lake: Lake) -> None:
    def stored(word: str) -> None:
        table = pa.table({"id": list(range(300_000)), "word": [word] * 300_000})
        pq.write_table(table, lake.folder / "x.parquet", row_group_size=100_000)
        lake.client.put("x.parquet", lake.folder / "x.parquet")

    stored("one")
    connector, source = lake.open(SourceKind.PARQUET, "x.parquet")
    scan = scan_of(connector, source)
    rows = connector.rows(scan)
    next(rows)
    stored("two")
    with pytest.raises(DatarecsError) as caught:
        list(rows)
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_a_store_that_ignores_conditions_is_caught_by_the_etag_of_its_answer() -> None:
    with scripted_store() as store:
        store.checks_conditions = False
        store.objects = {"x.csv": b"id\n1\n"}
        connector, source = _scripted(store, "x.csv")
        pin = connector.pin(source).pin
        store.objects = {"x.csv": b"id\n2\n"}
        with pytest.raises(DatarecsError) as caught:
            connector.describe(source, pin)
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_a_weak_etag_is_compared_and_not_sent() -> None:
    with scripted_store() as store:
        store.objects, store.etags = {"x.csv": b"id\n1\n"}, {"x.csv": 'W/"1"'}
        connector, source = _scripted(store, "x.csv")
        assert delivered(connector, scan_of(connector, source)) == [("1",)]
        assert _conditions(store) == []


def _conditions(store: ScriptedStore) -> list[str]:
    headers = [
        {name.lower(): value for name, value in sent.items()} for _, _, sent in store.requests
    ]
    return [each["if-match"] for each in headers if "if-match" in each]


def test_a_listing_may_have_etags_without_quotes() -> None:
    with scripted_store() as store:
        store.objects, store.lists_quotes = {"x.csv": b"id\n1\n"}, False
        connector, source = _scripted(store, "*.csv")
        assert delivered(connector, scan_of(connector, source)) == [("1",)]
        assert set(_conditions(store)) == {store.etag("x.csv")}


def test_a_store_without_etags_is_refused() -> None:
    with scripted_store() as store:
        store.objects, store.has_etags = {"x.csv": b"id\n1\n"}, False
        connector, source = _scripted(store, "x.csv")
        with pytest.raises(DatarecsError, match="no ETag") as caught:
            connector.pin(source)
    assert caught.value.code.name == "SOURCE_UNSUPPORTED"


def _scripted(
    store: ScriptedStore, path: str, secrets: Mapping[str, str] | None = None, **config: str
) -> tuple[Connector, Source]:
    source = Source(name="s", kind=SourceKind.CSV, connection="c", path=path)
    fields = {"url": f"s3://{BUCKET}", "endpoint": store.url, **config}
    connection = a_connection(**fields)
    made = open_connector(
        source, connection, secrets or {}, surroundings=around(Path("/nonexistent"))
    )
    return made, source


def test_requests_are_signed_with_the_credentials_and_the_region() -> None:
    with scripted_store() as store:
        store.objects = {"x.csv": b"id\n1\n"}
        secrets = {"credentials": "key-of-a:secret-of-a:token-of-a"}
        connector, source = _scripted(store, "x.csv", secrets, region="eu-central-1")
        connector.pin(source)
        headers = {name.lower(): value for name, value in store.requests[0][2].items()}
    assert "Credential=key-of-a/" in headers["authorization"]
    assert "/eu-central-1/s3/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "token-of-a"


def test_a_connection_without_credentials_sends_unsigned_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-platform")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-platform")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-platform")
    with scripted_store() as store:
        store.objects = {"x.csv": b"id\n1\n"}
        for secrets in ({}, {"credentials": "key-of-a:secret-of-a"}):
            connector, source = _scripted(store, "x.csv", secrets)
            assert delivered(connector, scan_of(connector, source)) == [("1",)]
        seen = json.dumps([headers for _, _, headers in store.requests])
        unsigned = [one for one in store.requests if "Authorization" not in str(one[2]).title()]
    assert "of-the-platform" not in seen
    assert 0 < len(unsigned) < len(store.requests)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"<Error><Code>NoSuchBucket</Code></Error>", "bucket lake does not exist at {}; check"),
        (b"nothing here", "{} answers a listing of bucket lake with status 404; check"),
    ],
)
def test_a_missing_bucket_and_a_server_that_is_no_store_are_named(
    answer: bytes, words: str
) -> None:
    with scripted_store() as store:
        store.missing = answer
        for path in ("x.csv", "*.csv"):
            connector, source = _scripted(store, path)
            with pytest.raises(ConnectionFailedError) as caught:
                connector.pin(source)
            connector.close()
            assert words.format(store.url) in str(caught.value)


def test_a_path_without_objects_is_named_with_its_server() -> None:
    with scripted_store() as store:
        store.objects = {"x.csv": b"id\n1\n"}
        connector, source = _scripted(store, "y.csv")
        with pytest.raises(NoFilesError, match=f"'y.csv' in s3://lake at {store.url}; check"):
            connector.pin(source)
        connector.close()


def test_a_server_is_verified_by_the_authorities_of_the_connection(tmp_path: Path) -> None:
    authority = an_authority()
    with scripted_store(authority.server(tmp_path, host="localhost")) as store:
        store.objects = {"x.csv": b"id\n1\n"}
        connector, source = _scripted(store, "x.csv", ca=authority.pem)
        assert delivered(connector, scan_of(connector, source)) == [("1",)]
        connector.close()
        store.requests.clear()
        stranger, source = _scripted(store, "x.csv", ca=an_authority().pem)
        with pytest.raises(DatarecsError, match="unknown certificate authority") as caught:
            stranger.pin(source)
        stranger.close()
    assert (caught.value.code.name, store.requests) == ("CONNECTION_FAILED", [])


def test_more_objects_than_the_limit_are_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_module, "MAX_OBJECTS", 3)
    for at in range(4):
        lake.client.put(f"many/{at}.csv", b"x")
    lake.client.put("few/1.csv", b"x")
    tree = lake.tree()
    assert tree.find("few/*") == ["few/1.csv"]
    for path in ("many", "*", "many/1*.csv"):
        with pytest.raises(DatarecsError, match="more than 3 objects") as caught:
            tree.find(path)
        assert caught.value.code.name == "SOURCE_LIMIT"


def test_many_pinned_files_are_checked_by_listing_again(lake: Lake) -> None:
    for at in range(20):
        lake.client.put(f"{at}.csv", b"id\n1\n")
    connector, source = lake.open(SourceKind.CSV, "*.csv")
    held = connector.pin(source)
    lake.client.put("new.csv", b"id\n1\n")
    pin = held.check()
    assert isinstance(pin, FileList)
    assert len(pin.files) == 20
    lake.client.put("7.csv", b"id\n2\n")
    with pytest.raises(DatarecsError, match=r"7\.csv") as caught:
        held.check()
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_without_a_connection_the_environment_of_the_user_applies(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, _, secret = ADMIN.partition(":")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", lake.server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for day, word in (("1", "one"), ("2", "two")):
        pq.write_table(pa.table({"word": [word]}), lake.folder / "x.parquet")
        lake.client.put(f"exports/day={day}/x.parquet", lake.folder / "x.parquet")
    path = f"s3://{lake.bucket}/exports/day=*/*.parquet"
    source = Source(name="s", kind=SourceKind.PARQUET, path=path)
    connector = open_connector(source, None, {}, surroundings=around(lake.folder, any_path=True))
    held = connector.pin(source)
    assert isinstance(held.pin, FileList)
    assert held.pin.root == f"s3://{lake.bucket}/exports"
    assert [file.path for file in held.pin.files] == ["day=1/x.parquet", "day=2/x.parquet"]
    assert delivered(connector, scan_of(connector, source)) == [("one", "1"), ("two", "2")]


class TestIceberg:
    """A table with its metadata and data in a store, and its catalog in a local file."""

    @pytest.fixture
    def table(self, lake: Lake) -> Table:
        key, _, secret = ADMIN.partition(":")
        catalog = SqlCatalog(
            "lake",
            uri=f"sqlite:///{lake.folder}/catalog.db",
            warehouse=f"s3://{lake.bucket}/warehouse",
            **{
                "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
                "s3.endpoint": lake.server.endpoint,
                "s3.region": "us-east-1",
                "s3.access-key-id": key,
                "s3.secret-access-key": secret,
            },
        )
        catalog.create_namespace("books")
        rows = pa.table({"id": pa.array([1, 2]), "word": ["one", "two"]})
        made = catalog.create_table("books.words", rows.schema)
        made.append(rows)
        return made

    def connector(self, lake: Lake, url: str) -> tuple[Connector, Source]:
        store = ObjectStoreConfig(url=url, endpoint=lake.server.endpoint)
        catalog = DeclaredSqlCatalog(type=CatalogType.SQL, name="lake", sqlite="catalog.db")
        connection = Connection(
            type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog, store=store)
        )
        source = Source(name="s", kind=SourceKind.ICEBERG, connection="c", relation="books.words")
        secrets = {"credentials": ADMIN}
        made = open_connector(source, connection, secrets, surroundings=around(lake.folder))
        return made, source

    def test_a_table_is_read_from_the_store(self, lake: Lake, table: Table) -> None:
        connector, source = self.connector(lake, f"s3://{lake.bucket}/warehouse")
        assert sorted(delivered(connector, scan_of(connector, source))) == [
            ("1", "one"),
            ("2", "two"),
        ]
        table.delete("id = 1")
        assert delivered(connector, scan_of(connector, source)) == [("2", "two")]
        connector.close()

    @pytest.mark.parametrize("prefix", ["other", "warehouse/books/words2"])
    def test_files_outside_the_store_of_the_connection_are_refused(
        self, lake: Lake, table: Table, prefix: str
    ) -> None:
        assert table.name() == ("books", "words")
        connector, source = self.connector(lake, f"s3://{lake.bucket}/{prefix}")
        with pytest.raises(DatarecsError) as caught:
            connector.pin(source)
        assert caught.value.code.name == "PATH_REFUSED"
