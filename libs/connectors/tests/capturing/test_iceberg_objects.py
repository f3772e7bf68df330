"""Captures of Iceberg: which tables and views a catalog has."""

import json
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.errors import (
    CorruptSourceError,
    QueryFailedError,
    SourceLimitError,
)
from datarecs_connectors.iceberg import listing
from datarecs_core.captures.request import (
    CaptureScope,
    ObjectName,
)
from datarecs_core.catalog.records import ViewDefinition
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    IcebergConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
    SslMode,
)
from datarecs_testing.lake import (
    NAMESPACE,
    Lake,
    a_lake,
    path_at,
)
from datarecs_testing.lake_captures import (
    ENTRIES,
    NAME,
    ONE,
    named,
    opened,
)
from datarecs_testing.lake_server import LakeServer, serving
from datarecs_testing.stack import PostgresServer

EVERYTHING = CaptureScope()
VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


def nested(lake: Lake) -> None:
    """Tables at three depths."""
    lake.table("entries", ENTRIES, ONE)
    lake.table("more", ENTRIES)
    for namespace in ((NAMESPACE, "old"), (NAMESPACE, "old", "er"), ("empty",)):
        lake.catalog.create_namespace(namespace)
    for namespace in ((NAMESPACE, "old"), (NAMESPACE, "old", "er")):
        lake.catalog.create_table((*namespace, "t"), ENTRIES)


TABLES = (
    named(NAMESPACE, "entries"),
    named(NAMESPACE, "more"),
    named(NAMESPACE, "old", "t"),
    named(NAMESPACE, "old", "er", "t"),
)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("scope", "tables"),
    [
        (EVERYTHING, TABLES),
        (CaptureScope(namespaces=((NAMESPACE, "old"),)), TABLES[2:3]),
        (CaptureScope(namespaces=(("absent",),)), ()),
        (CaptureScope(tables=(TABLES[3], named(NAMESPACE, "absent"))), TABLES[3:]),
    ],
)
def test_tables_of_nested_namespaces_are_listed(
    lake: Lake, scope: CaptureScope, tables: tuple[ObjectName, ...]
) -> None:
    nested(lake)
    listed = opened(lake).objects(scope)
    assert (set(listed.tables), listed.views) == (set(tables), ())
    with serving(lake.folder / "catalog.db") as server:
        assert opened(lake, rest(server)).objects(scope) == listed


def rest(server: LakeServer) -> Connection:
    catalog = RestCatalog(type=CatalogType.REST, uri=server.url, warehouse="main")
    return Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))


@pytest.mark.integration
def test_tables_of_a_catalog_in_postgres_are_listed(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.fresh_database()
    fields = psycopg.conninfo.conninfo_to_dict(url.replace("postgresql+psycopg", "postgresql"))
    server = PostgresConfig(
        host="127.0.0.1",
        port=int(fields["port"] or 5432),
        database=str(fields["dbname"]),
        user=str(fields["user"]),
        sslmode=SslMode.DISABLE,
    )
    catalog = SqlCatalog(type=CatalogType.SQL, name="lake", postgres=server)
    connection = Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))
    with ExitStack() as closing:
        lake = a_lake(tmp_path / "lake", closing, database=url)
        nested(lake)
        secrets = {"password": str(fields["password"])}
        source = open_capture_source("lake", connection, secrets, lake.surroundings)
        assert set(source.objects(EVERYTHING).tables) == set(TABLES)
        assert len(source.table(TABLES[0], known=()).snapshots) == 1


def test_folders_with_metadata_are_tables_and_others_namespaces(lake: Lake) -> None:
    warehouse = lake.folder / "warehouse"
    for place in (
        "a/t/metadata",
        "a/b/t/metadata",
        "a/.hidden/t/metadata",
        "empty",
        "top/metadata",
    ):
        (warehouse / place).mkdir(parents=True)
    (warehouse / "a" / "linked").symlink_to(warehouse / "a" / "t")
    source = opened(lake, lake.hadoop)
    assert source.objects(EVERYTHING).tables == (named("a", "t"), named("a", "b", "t"))
    scope = CaptureScope(namespaces=(("a", "b"), ("..",), ("absent",)))
    assert source.objects(scope).tables == (named("a", "b", "t"),)


@pytest.mark.parametrize("kind", ["sql", "hadoop"])
def test_a_catalog_with_too_many_tables_is_refused(
    lake: Lake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_OBJECTS", 1)
    for number in range(2):
        lake.publish_to_folder(lake.table(f"t{number}", ENTRIES))
    with pytest.raises(SourceLimitError, match="more than 1 tables"):
        opened(lake, lake.hadoop if kind == "hadoop" else None).objects(EVERYTHING)


@pytest.mark.integration
def test_a_server_that_repeats_its_lists_ends(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_MAX_PAGES", 20)
    with serving(lake.folder / "catalog.db") as server:
        source = opened(lake, rest(server))
        server.answer = (
            200,
            json.dumps(
                {"access_token": "x", "namespaces": [["a"]], "next-page-token": "again"}
            ).encode(),
        )
        with pytest.raises(SourceLimitError, match="pages"):
            source.objects(EVERYTHING)


VIEW_NAME = named(NAMESPACE, "seen")


def a_view(*statements: str) -> dict[str, object]:
    fields = [{"id": 1, "name": "id", "required": True, "type": "long"}]
    return {
        "view-uuid": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "format-version": 1,
        "location": "file:///views/seen",
        "schemas": [{"type": "struct", "schema-id": 1, "fields": fields}],
        "current-version-id": len(statements),
        "versions": [
            {
                "version-id": number,
                "schema-id": 1,
                "timestamp-ms": 1,
                "summary": {},
                "representations": [{"type": "sql", "sql": statement, "dialect": "spark"}],
                "default-catalog": "lake",
                "default-namespace": [NAMESPACE],
            }
            for number, statement in enumerate(statements, 1)
        ],
        "version-log": [],
        "properties": {"comment": "for reports"},
    }


@pytest.mark.integration
@pytest.mark.case("Q56")
def test_a_view_of_a_server_is_described_by_its_current_version(lake: Lake) -> None:
    with serving(lake.folder / "catalog.db") as server:
        server.endpoints = [VIEWS]
        server.views[NAMESPACE, "seen"] = {"metadata": a_view("SELECT 1 AS id")}
        source = opened(lake, rest(server))
        assert source.objects(EVERYTHING).views == (VIEW_NAME,)
        view = source.view(VIEW_NAME)
        assert view.name == VIEW_NAME
        assert view.definitions == (ViewDefinition(sql="SELECT 1 AS id", dialect="spark"),)
        assert view.search_path == (f"lake.{NAMESPACE}",)
        assert [(one.name, one.type, one.nullable) for one in view.columns] == [
            ("id", "int", False)
        ]
        assert view.comment == "for reports"
        server.views[NAMESPACE, "seen"] = {"metadata": a_view("SELECT 1 AS id", "SELECT 2 AS id")}
        assert source.view(VIEW_NAME).definitions[0].sql == "SELECT 2 AS id"
        server.endpoints = None
        assert source.objects(EVERYTHING).views == ()
        with pytest.raises(QueryFailedError, match="no view"):
            source.view(named(NAMESPACE, "absent"))


def test_a_view_of_a_sql_catalog_is_described(lake: Lake) -> None:
    table = lake.table("entries", ENTRIES)
    place = path_at(table.location()) / "metadata" / "view.json"
    place.write_text(json.dumps(a_view("SELECT 1 AS id")), encoding="utf-8")
    with lake.catalog.engine.begin() as session:
        session.exec_driver_sql(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type,"
            " metadata_location) VALUES ('lake', ?, 'seen', 'VIEW', ?)",
            (NAMESPACE, f"file://{place}"),
        )
    source = opened(lake)
    listed = source.objects(EVERYTHING)
    assert (listed.tables, listed.views) == ((NAME,), (VIEW_NAME,))
    assert source.view(VIEW_NAME).definitions[0].sql == "SELECT 1 AS id"
    place.write_text("{}", encoding="utf-8")
    with pytest.raises(CorruptSourceError, match="version 1"):
        source.view(VIEW_NAME)
    with pytest.raises(QueryFailedError, match="no view"):
        source.view(NAME)
