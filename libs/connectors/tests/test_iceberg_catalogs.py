"""Every catalog against the conformance suite of table connectors, and its requests."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from pyiceberg.table import Table

from datarecs_connectors.registry import open_connector
from datarecs_core.comparison.planning.scan import TableSnapshot
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    FilesConfig,
    IcebergConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
    SslMode,
)
from datarecs_testing.certificates import an_authority
from datarecs_testing.conformance.table_connector import (
    FIRST,
    WORDS,
    TableConnectorConformance,
)
from datarecs_testing.lake import Lake, a_lake, path_at
from datarecs_testing.lake_server import CLIENT, PREFIX, SECRET, TOKEN, LakeServer, serving
from datarecs_testing.stack import PostgresServer

SOURCE = Source(name="s", kind=SourceKind.ICEBERG, connection="c", relation="books.words")


class TestSqlInSqlite(TableConnectorConformance):
    def connection(self, lake: Lake) -> Connection:
        return lake.connection


class TestHadoop(TableConnectorConformance):
    def connection(self, lake: Lake) -> Connection:
        return lake.hadoop

    def publish(self, lake: Lake, table: Table) -> None:
        lake.publish_to_folder(table)


@pytest.mark.integration
class TestSqlInPostgres(TableConnectorConformance):
    secrets = {"password": "secret"}  # noqa: RUF012  as in the suite

    @pytest.fixture
    def lake(self, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Lake]:
        url = postgres_server.fresh_database()
        with ExitStack() as closing:
            made = a_lake(tmp_path / "lake", closing, database=url)
            self.admin = psycopg.conninfo.conninfo_to_dict(
                url.replace("postgresql+psycopg", "postgresql")
            )
            with psycopg.connect(
                url.replace("postgresql+psycopg", "postgresql"), autocommit=True
            ) as session:
                role = psycopg.sql.Identifier(f"reader_{self.admin['dbname']}")
                for statement in (
                    "CREATE ROLE {} LOGIN PASSWORD 'secret'",
                    "GRANT SELECT ON iceberg_tables TO {}",
                ):
                    session.execute(psycopg.sql.SQL(statement).format(role))
            yield made

    def connection(self, lake: Lake) -> Connection:
        assert lake.folder.is_dir()
        server = PostgresConfig(
            host="127.0.0.1",
            port=int(self.admin["port"] or 5432),
            database=str(self.admin["dbname"]),
            user=f"reader_{self.admin['dbname']}",
            sslmode=SslMode.DISABLE,
        )
        catalog = SqlCatalog(type=CatalogType.SQL, name="lake", postgres=server)
        return Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))


@pytest.mark.integration
class TestRest(TableConnectorConformance):
    secrets = {"credential": f"{CLIENT}:{SECRET}"}  # noqa: RUF012  as in the suite

    server: LakeServer

    @pytest.fixture(autouse=True)
    def _served(self, lake: Lake) -> Iterator[None]:
        with serving(lake.folder / "catalog.db") as self.server:
            yield

    def connection(self, lake: Lake) -> Connection:
        assert lake.folder.is_dir()
        return rest(self.server.url)

    def test_a_reader_requests_token_configuration_and_table(
        self, lake: Lake, table: Table
    ) -> None:
        assert table.name() == ("books", "words")
        self.connect(lake, SOURCE).pin(SOURCE)
        assert self.server.requested_paths == [
            "/cat/v1/oauth/tokens",
            "/cat/v1/config?warehouse=main",
            f"/cat/v1/{PREFIX}/namespaces/books/tables/words",
        ]

    @pytest.mark.parametrize(
        ("field", "value", "last"),
        [
            ("uri", "/other", "/other/v1/oauth/tokens"),
            ("token_uri", "/cat/elsewhere", "/cat/elsewhere"),
            ("scope", "else", "/cat/v1/oauth/tokens"),
            ("warehouse", "second", f"/cat/v1/{PREFIX}/namespaces/books/tables/words"),
        ],
    )
    def test_every_field_of_a_rest_catalog_is_obeyed(
        self, lake: Lake, table: Table, field: str, value: str, last: str
    ) -> None:
        assert table.name() == ("books", "words")
        root = self.server.url.removesuffix("/cat")
        catalog = RestCatalog(type=CatalogType.REST, uri=self.server.url, warehouse="main")
        catalog = replace(catalog, **{field: root + value if value.startswith("/") else value})  # type: ignore[arg-type]  # one field of the catalog
        connection = Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))
        opened = open_connector(SOURCE, connection, self.secrets, surroundings=lake.surroundings)
        if field == "warehouse":
            opened.pin(SOURCE)
            assert "/cat/v1/config?warehouse=second" in self.server.requested_paths
        else:
            with pytest.raises(DatarecsError, match="401"):
                opened.pin(SOURCE)
        assert self.server.requested_paths[-1] == last

    @pytest.mark.parametrize("secrets", [{}, {"token": "stale"}, {"credential": "reader:wrong"}])
    def test_a_catalog_that_refuses_is_reported_without_the_secret(
        self, lake: Lake, secrets: dict[str, str]
    ) -> None:
        self.secrets = secrets
        with pytest.raises(DatarecsError, match="401") as caught:
            self.connect(lake, SOURCE).pin(SOURCE)
        assert caught.value.code.name == "PERMISSION_DENIED"
        assert not any(part in str(caught.value) for part in ("stale", "wrong"))
        (step,) = self.connect(lake, SOURCE).probe()
        assert (step.ok, step.login_refused) == (False, True)

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            ((200, b"<html>"), "CORRUPT_SOURCE"),
            ((200, b"[1]"), "CORRUPT_SOURCE"),
            ((200, b"{}"), "CORRUPT_SOURCE"),
            ((404, b""), "CONNECTION_FAILED"),
            ((302, b""), "CONNECTION_FAILED"),
            ((503, b""), "CONNECTION_FAILED"),
        ],
    )
    def test_what_is_no_catalog_is_refused_and_no_redirect_is_followed(
        self, lake: Lake, answer: tuple[int, bytes], code: str
    ) -> None:
        self.secrets, self.server.answer = {"token": TOKEN}, answer
        with pytest.raises(DatarecsError) as caught:
            self.connect(lake, SOURCE).pin(SOURCE)
        assert caught.value.code.name == code
        assert not any(path.endswith("elsewhere") for path in self.server.requested_paths)

    @pytest.mark.parametrize(("host", "trusted"), [("localhost", True), ("other.example", False)])
    def test_tls_is_verified_for_the_name(
        self,
        lake: Lake,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        host: str,
        trusted: bool,
    ) -> None:
        lake.table("words", WORDS, FIRST)
        authority = an_authority()
        (tmp_path / "ca.pem").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        context = authority.server(tmp_path, host=host)
        with serving(lake.folder / "catalog.db", context) as server:
            connector = open_connector(
                SOURCE, rest(server.url), {"token": TOKEN}, surroundings=lake.surroundings
            )
            if trusted:
                assert isinstance(connector.pin(SOURCE).pin, TableSnapshot)
                return
            with pytest.raises(DatarecsError, match="TLS failed") as caught:
                connector.pin(SOURCE)
        assert (caught.value.code.name, server.requested_paths) == ("CONNECTION_FAILED", [])

    def test_an_address_outside_the_policy_is_not_dialled(self, lake: Lake) -> None:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.SERVER)
        around = replace(lake.surroundings, policy=policy)
        for url, why in (
            (self.server.url, "only https is supported"),
            (self.server.url.replace("http:", "https:"), "loopback"),
        ):
            connector = open_connector(SOURCE, rest(url), {}, surroundings=around)
            with pytest.raises(DatarecsError, match=why) as caught:
                connector.pin(SOURCE)
            assert caught.value.code.name == "CONNECTION_FAILED"
        assert self.server.requested_paths == []


def rest(url: str) -> Connection:
    catalog = RestCatalog(type=CatalogType.REST, uri=url, warehouse="main")
    return Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


def refused(lake: Lake, source: Source, connection: Connection, **around: object) -> DatarecsError:
    surroundings = replace(lake.surroundings, **around)  # type: ignore[arg-type]  # fields of the surroundings
    with pytest.raises(DatarecsError) as caught:
        open_connector(source, connection, {}, surroundings=surroundings).pin(source)
    return caught.value


def test_a_pin_names_catalog_table_and_snapshot(lake: Lake) -> None:
    table = lake.table("words", WORDS, FIRST)
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    pin = connector.pin(SOURCE).pin
    assert isinstance(pin, TableSnapshot)
    current = table.current_snapshot()
    assert current is not None
    assert (pin.catalog, pin.table, pin.table_uuid, pin.snapshot_id, pin.schema_id) == (
        "sql lake",
        "books.words",
        str(table.metadata.table_uuid),
        current.snapshot_id,
        0,
    )


def test_a_table_that_was_made_again_is_another_one(lake: Lake) -> None:
    lake.table("words", WORDS, FIRST)
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    held = connector.pin(SOURCE)
    lake.catalog.drop_table("books.words")
    with pytest.raises(DatarecsError, match="was dropped since") as caught:
        held.check()
    assert caught.value.code.name == "SNAPSHOT_LOST"
    path = lake.folder / "warehouse/books/words"
    path.rename(path.with_name("older"))
    lake.table("words", WORDS, FIRST)
    with pytest.raises(DatarecsError, match="created again") as caught:
        held.check()
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_a_view_is_no_table(lake: Lake) -> None:
    lake.table("words", WORDS, FIRST)
    with lake.catalog.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    assert "is a view" in str(refused(lake, SOURCE, lake.connection))


@pytest.mark.parametrize("relation", ["words", "books.", ".words", "books..words"])
def test_a_relation_names_namespace_and_table(lake: Lake, relation: str) -> None:
    error = refused(lake, replace(SOURCE, relation=relation), lake.connection)
    assert "namespace and name" in str(error)


@pytest.mark.parametrize("relation", ["books.wor/ds", "books.words\n", "wa re.x"])
def test_a_name_is_one_step_down_in_a_folder(lake: Lake, relation: str) -> None:
    lake.publish_to_folder(lake.table("words", WORDS, FIRST))
    error = refused(lake, replace(SOURCE, relation=relation), lake.hadoop)
    assert error.code.name == "QUERY_ERROR"


def test_a_hint_may_name_the_metadata_file(lake: Lake) -> None:
    table = lake.table("words", WORDS, FIRST)
    lake.publish_to_folder(table)
    metadata = path_at(table.metadata_location)
    table.append(FIRST)
    lake.publish_to_folder(table)
    (metadata.parent / "version-hint.text").write_text(metadata.name, encoding="utf-8")
    pin = open_connector(SOURCE, lake.hadoop, {}, surroundings=lake.surroundings).pin(SOURCE).pin
    assert isinstance(pin, TableSnapshot)
    assert pin.snapshot_id == table.history()[0].snapshot_id


def test_a_catalog_file_that_is_absent_or_no_catalog_is_reported(lake: Lake) -> None:
    lake.table("words", WORDS, FIRST)
    (lake.folder / "empty.db").write_bytes(b"")
    for file, why in (("absent.db", "no catalog file"), ("empty.db", "no readable table")):
        catalog = SqlCatalog(type=CatalogType.SQL, name="lake", sqlite=file)
        connection = Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))
        error = refused(lake, SOURCE, connection)
        assert (error.code.name, why in str(error)) == ("CONNECTION_FAILED", True)


def test_a_connection_of_another_type_serves_no_table(lake: Lake) -> None:
    files = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
    with pytest.raises(DatarecsError, match="connection of type iceberg"):
        open_connector(SOURCE, files, {}, surroundings=lake.surroundings)


def test_a_table_without_the_reader_of_tables_says_what_to_install(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table("words", WORDS, FIRST)
    catalog = SqlCatalog(type=CatalogType.SQL, name="lake", sqlite="catalog.db")
    connection = Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))
    monkeypatch.setattr("datarecs_connectors.registry.find_spec", lambda _: None)
    error = refused(lake, SOURCE, connection)
    assert error.code.name == "SOURCE_UNSUPPORTED"
    assert "pip install 'datarecs[iceberg]'" in str(error)


def test_metadata_that_cannot_be_read_is_corrupt_without_its_text(lake: Lake) -> None:
    table = lake.table("words", WORDS, FIRST)
    path_at(table.metadata_location).write_text('{"format-version": 2, "location": "s3cret"}')
    error = refused(lake, SOURCE, lake.connection)
    assert (error.code.name, "s3cret" in str(error)) == ("CORRUPT_SOURCE", False)


def test_files_outside_the_allowed_folders_are_not_opened(lake: Lake, tmp_path: Path) -> None:
    lake.table("words", WORDS, FIRST)
    other = tmp_path / "other"
    other.mkdir()
    (lake.folder / "catalog.db").rename(other / "catalog.db")
    error = refused(lake, SOURCE, lake.connection, roots=(other,))
    assert (error.code.name, "outside" in str(error)) == ("PATH_REFUSED", True)


def test_a_link_out_of_the_warehouse_is_not_followed(lake: Lake, tmp_path: Path) -> None:
    table = lake.table("words", WORDS, FIRST)
    metadata = path_at(table.metadata_location)
    metadata.rename(tmp_path / "moved.json")
    metadata.symlink_to(tmp_path / "moved.json")
    assert refused(lake, SOURCE, lake.connection).code.name == "PATH_REFUSED"


@pytest.mark.parametrize("location", ["s3://bucket/t", "gs://bucket/t", "hdfs://node/t"])
def test_a_store_that_cannot_be_read_is_named(lake: Lake, location: str) -> None:
    lake.table("words", WORDS, FIRST)
    with lake.catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE iceberg_tables SET metadata_location = ?", (f"{location}/v1.metadata.json",)
        )
    error = refused(lake, SOURCE, lake.connection)
    kind = location.partition(":")[0]
    assert (error.code.name, f"of kind {kind}" in str(error)) == ("SOURCE_UNSUPPORTED", True)


def test_a_table_without_a_snapshot_has_no_rows(lake: Lake, tmp_path: Path) -> None:
    table = lake.table("words", WORDS)
    connector = open_connector(SOURCE, lake.connection, {}, surroundings=lake.surroundings)
    held = connector.pin(SOURCE)
    assert isinstance(held.pin, TableSnapshot)
    assert held.pin.snapshot_id is None
    table.append(pa.table({"id": [1], "word": ["later"]}))
    held.check()
    assert tmp_path.is_dir()
