"""Commits through every catalog that compares and sets, and what a sink may reach."""

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField

from datarecs_application.ports.sinking import CommitRequest
from datarecs_connectors.errors import ConnectionFailedError, SourceError
from datarecs_connectors.locations import Places
from datarecs_connectors.registry import Surroundings
from datarecs_connectors.sinking import committing
from datarecs_connectors.sinking.opening import CatalogConnection, open_sink_tables
from datarecs_connectors.sinking.tables import IcebergSinkTables
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    IcebergConfig,
    ObjectStoreConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
    SslMode,
)
from datarecs_core.sink.definition import SinkTarget
from datarecs_testing.lake import Lake, a_lake
from datarecs_testing.lake_server import CLIENT, SECRET, TOKEN, LakeServer, serving
from datarecs_testing.object_store import ADMIN, ObjectServer
from datarecs_testing.stack import PostgresServer
from datarecs_testing.tables import NOON

from .sink_house import SINK, TARGET, House, records_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
OTHERS = tuple(replace(TARGET, name=name) for name in ("first", "second", "third"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "_CHECK_WAIT_MS", 1)
    monkeypatch.setattr(committing, "_LONGEST_WAIT_MS", 1)


def ids_in(house: House, name: str = "orders") -> list[int]:
    return sorted(row["id"] for row in house.rows(name))


@pytest.mark.integration
class TestRest:
    @pytest.fixture
    def server(self, lake: Lake) -> Iterator[LakeServer]:
        with serving(lake.folder / "catalog.db") as server:
            yield server

    @pytest.fixture
    def rest(self, house: House, server: LakeServer) -> House:
        catalog = RestCatalog(type=CatalogType.REST, uri=server.url)
        secrets = {"credential": f"{CLIENT}:{SECRET}"}
        return replace(house, config=IcebergConfig(catalog=catalog), secrets=secrets)

    def test_a_commit_adds_snapshot_property_and_nothing_else(
        self, rest: House, server: LakeServer
    ) -> None:
        rest.lake.table("orders", SCHEMA)
        commit = rest.commit(rest.request(*rest.write(records_of({"id": 1}))))
        assert commit is not None
        assert ids_in(rest) == [1]
        (document,) = server.documents
        assert document["identifier"] == {"namespace": ["books"], "name": "orders"}
        assert [each["type"] for each in document["requirements"]] == [
            "assert-table-uuid",
            "assert-ref-snapshot-id",
        ]
        assert document["requirements"][1] == {
            "type": "assert-ref-snapshot-id",
            "ref": "main",
            "snapshot-id": None,
        }
        assert [each["action"] for each in document["updates"]] == [
            "add-snapshot",
            "set-snapshot-ref",
            "set-properties",
        ]
        second = rest.commit(rest.request(*rest.write(records_of({"id": 2}))))
        assert second is not None
        assert server.documents[1]["requirements"][1]["snapshot-id"] == commit.snapshot_id
        assert ids_in(rest) == [1, 2]

    @pytest.mark.parametrize("status", [500, 502, 504])
    @pytest.mark.parametrize("lands", [True, False])
    @pytest.mark.case("I18")
    def test_an_unanswered_commit_is_recognised_or_repeated(
        self, rest: House, server: LakeServer, status: int, lands: bool
    ) -> None:
        rest.lake.table("orders", SCHEMA)
        request = rest.request(*rest.write(records_of({"id": 1})))
        server.faults = [(status, lands)]
        assert rest.commit(request) is not None
        assert len(server.documents) == (1 if lands else 2)
        assert len(rest.table().metadata.snapshots) == 1
        assert ids_in(rest) == [1]

    @pytest.mark.case("I17")
    def test_a_table_with_conflicts_stays_behind_and_alone_takes_the_old_files(
        self, rest: House, server: LakeServer
    ) -> None:
        requests = {}
        for target in OTHERS:
            rest.lake.table(target.name, SCHEMA)
            files = rest.write(records_of({"id": 1}), target)
            requests[target] = rest.request(*files, target=target)
        assert rest.commit(requests[OTHERS[0]], OTHERS[0]) is not None
        server.faults = [(409, False)] * 5
        with pytest.raises(SinkError) as failed:
            rest.commit(requests[OTHERS[1]], OTHERS[1])
        assert failed.value.code is SinkCode.COMMIT_FAILED
        assert rest.commit(requests[OTHERS[2]], OTHERS[2]) is not None
        for target in OTHERS:
            assert rest.commit(requests[target], target) is not None
            assert ids_in(rest, target.name) == [1]
            assert len(rest.table(target.name).metadata.snapshots) == 1

    @pytest.mark.parametrize(
        ("status", "code"), [(400, SinkCode.COMMIT_FAILED), (404, SinkCode.TABLE_LOST)]
    )
    def test_a_refusal_is_not_repeated(
        self, rest: House, server: LakeServer, status: int, code: SinkCode
    ) -> None:
        rest.lake.table("orders", SCHEMA)
        request = rest.request(*rest.write(records_of({"id": 1})))
        server.faults = [(status, False)]
        with pytest.raises(SinkError) as refused:
            rest.commit(request)
        assert refused.value.code is code
        assert len(server.documents) == 1
        assert not list(rest.lake.folder.rglob("*.avro"))

    def test_a_table_is_created_with_its_namespaces(self, rest: House) -> None:
        target = SinkTarget(catalog="lake", namespace=("north", "sales"), name="orders")
        files = rest.write(records_of({"id": 1}), target, auto_create=True)
        rest.commit(rest.request(*files, target=target), target)
        table = rest.lake.catalog.load_table("north.sales.orders")
        assert table.format_version == 2
        assert table.scan().to_arrow().column("id").to_pylist() == [1]

    @pytest.mark.case("I69")
    def test_no_secret_is_in_any_file_or_summary(self, rest: House, server: LakeServer) -> None:
        rest.lake.table("orders", SCHEMA)
        rest.commit(rest.request(*rest.write(records_of({"id": 1}))))
        assert server.documents
        for canary in (SECRET, TOKEN, CLIENT):
            assert canary not in json.dumps(server.documents)
            for path in rest.lake.folder.rglob("*"):
                assert path.is_dir() or canary.encode() not in path.read_bytes()

    @pytest.mark.parametrize("host", ["169.254.169.254", "10.0.0.1", "127.0.0.1"])
    @pytest.mark.case("I68")
    def test_a_catalog_at_a_refused_address_gets_no_request(self, rest: House, host: str) -> None:
        catalog = RestCatalog(type=CatalogType.REST, uri=f"https://{host}:9/cat")
        rest.config, rest.profile = IcebergConfig(catalog=catalog), Profile.SERVER
        with pytest.raises(ConnectionFailedError, match="not allowed"):
            rest.tables().writer(TARGET)

    @pytest.mark.case("I68")
    def test_a_name_that_moves_to_a_refused_address_is_refused_in_the_commit(
        self, rest: House, server: LakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rest.lake.table("orders", SCHEMA)
        request = rest.request(*rest.write(records_of({"id": 1})))
        answer = [(2, 1, 6, "", ("169.254.169.254", 0))]
        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: answer)
        before = len(server.requested_paths)
        with pytest.raises(ConnectionFailedError, match="not allowed"):
            rest.commit(request)
        assert len(server.requested_paths) == before


@pytest.mark.integration
class TestPostgres:
    @pytest.fixture
    def postgres(self, tmp_path: Path, postgres_server: PostgresServer) -> Iterator[House]:
        url = postgres_server.fresh_database()
        plain = url.replace("postgresql+psycopg", "postgresql")
        admin = psycopg.conninfo.conninfo_to_dict(plain)
        role = f"writer_{admin['dbname']}"
        with ExitStack() as stack:
            lake = a_lake(tmp_path / "lake", stack, database=url)
            with psycopg.connect(plain, autocommit=True) as session:
                for statement in (
                    "CREATE ROLE {} LOGIN PASSWORD 's3cret-canary'",
                    "GRANT SELECT, INSERT, UPDATE ON iceberg_tables TO {}",
                    "GRANT SELECT, INSERT ON iceberg_namespace_properties TO {}",
                ):
                    session.execute(psycopg.sql.SQL(statement).format(psycopg.sql.Identifier(role)))
            server = PostgresConfig(
                host="127.0.0.1",
                port=int(admin["port"] or 5432),
                database=str(admin["dbname"]),
                user=role,
                sslmode=SslMode.DISABLE,
            )
            catalog = SqlCatalog(type=CatalogType.SQL, name="lake", postgres=server)
            self.admin = plain
            yield House(
                lake=lake,
                config=IcebergConfig(catalog=catalog),
                secrets={"password": "s3cret-canary"},
            )

    def test_tables_are_created_written_and_read_by_others(self, postgres: House) -> None:
        target = SinkTarget(catalog="lake", namespace=("north", "sales"), name="orders")
        for number in (1, 2):
            files = postgres.write(records_of({"id": number}), target, auto_create=True)
            postgres.commit(postgres.request(*files, target=target), target)
        table = postgres.lake.catalog.load_table("north.sales.orders")
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2]
        assert table.metadata.metadata_log[-1].metadata_file.rpartition("/")[2].startswith("00001-")
        table.append(table.scan().to_arrow())
        files = postgres.write(records_of({"id": 3}), target)
        postgres.commit(postgres.request(*files, target=target), target)
        assert table.refresh().scan().to_arrow().num_rows == 5

    def test_a_new_table_without_a_place_names_the_field_to_set(self, postgres: House) -> None:
        places = Places(source="lake", roots=(), now=lambda: NOON)
        tables = replace(
            postgres.tables(auto_create=True),
            catalogs={"lake": replace(postgres.catalog, places=places)},
        )
        with pytest.raises(SinkError, match=r"`store\.url` in the connection 'lake'") as no:
            tables.writer(TARGET).add(records_of({"id": 1}))
        assert no.value.code is SinkCode.FILE_LOCATION_REFUSED

    @pytest.mark.case("I12")
    def test_coordinators_that_commit_at_once_add_each_file_once(self, postgres: House) -> None:
        postgres.lake.table("orders", SCHEMA)
        requests = [postgres.request(*postgres.write(records_of({"id": n}))) for n in range(6)]
        pending = tuple(part for each in requests for part in each.pending)
        rounds = [
            replace(each, pending=pending, epoch=epoch) for each in requests for epoch in (1, 2, 3)
        ]

        def attempt(request: CommitRequest) -> None:
            with suppress(SinkError):  # too many conflicts, or a newer coordinator
                postgres.commit(request)

        with ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(attempt, rounds))
        postgres.commit(replace(rounds[-1], epoch=4))
        assert ids_in(postgres) == list(range(6))

    def test_a_missing_right_of_the_login_is_named(self, postgres: House) -> None:
        postgres.lake.table("orders", SCHEMA)
        request = postgres.request(*postgres.write(records_of({"id": 1})))
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute("REVOKE UPDATE ON iceberg_tables FROM PUBLIC")
            role = postgres.config.catalog.postgres.user  # type: ignore[union-attr]  # set above
            session.execute(
                psycopg.sql.SQL("REVOKE UPDATE ON iceberg_tables FROM {}").format(
                    psycopg.sql.Identifier(role)
                )
            )
        with pytest.raises(SinkError, match="SQLSTATE 42501") as refused:
            postgres.commit(request)
        assert refused.value.code is SinkCode.COMMIT_FAILED
        assert "canary" not in str(refused.value)

    def test_a_session_that_ends_before_its_answer_is_resolved_by_reading_the_table(
        self, postgres: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The row is changed, and the answer is lost with the session."""
        postgres.lake.table("orders", SCHEMA)
        request = postgres.request(*postgres.write(records_of({"id": 1})))
        execute = psycopg.Connection.execute

        def lost(
            self: psycopg.Connection[object], query: object, *rest: object, **more: object
        ) -> object:
            done = execute(self, query, *rest, **more)  # type: ignore[call-overload]  # as it came
            if b"UPDATE" in (query if isinstance(query, bytes) else b""):
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            return done

        monkeypatch.setattr(psycopg.Connection, "execute", lost)
        assert postgres.commit(request) is not None
        monkeypatch.undo()
        assert ids_in(postgres) == [1]
        assert len(postgres.table().metadata.snapshots) == 1


class TestSqlite:
    def test_a_locked_catalog_is_a_conflict(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("datarecs_connectors.sinking.sql_catalogs._LOCK_TIMEOUT_S", 0.01)
        house.lake.table("orders", SCHEMA)
        request = house.request(*house.write(records_of({"id": 1})))
        with closing(sqlite3.connect(house.lake.folder / "catalog.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SinkError, match="attempts") as failed:
                house.commit(request)
        assert failed.value.code is SinkCode.COMMIT_FAILED
        assert house.commit(request) is not None

    def test_a_file_that_is_no_catalog_is_named(self, house: House) -> None:
        (house.lake.folder / "catalog.db").write_bytes(b"")
        with pytest.raises(SourceError, match="catalog"):
            house.tables().writer(TARGET)


@pytest.mark.integration
class TestObjects:
    def test_tables_in_a_store_are_created_written_and_committed(
        self, house: House, object_server: ObjectServer
    ) -> None:
        folder = object_server.create_folder()
        store = ObjectStoreConfig(url=f"s3://{folder}", endpoint=object_server.endpoint)
        config = replace(house.config, store=store)
        connection = Connection(type=ConnectionType.ICEBERG, config=config)
        opened = CatalogConnection(connection=connection, secrets={"credentials": ADMIN})
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(house.lake.folder,), policy=policy, now=lambda: NOON)
        sink = replace(SINK, auto_create=True)
        with closing(open_sink_tables(sink, {"lake": opened}, task="s-0", around=around)) as tables:
            requests = [_committed(house, tables, number) for number in (1, 2)]
            for request in requests:
                folders = {file.path for each in request.pending for file in each.data_files}
                assert all(at.startswith(f"s3://{folder}/books/orders/data/") for at in folders)
            assert sorted(_ids_in_store(house, object_server)) == [1, 2]
            writer = tables.writer(TARGET)
            writer.add(records_of({"id": 3}))
            writer.flush()
            writer.discard()
            again = tables.commit(TARGET, requests[1])
            assert [one.control_offset for one in again] == [1, 2]
        names = [each["path"] for page in object_server.client(folder).list() for each in page]
        assert len([name for name in names if name.endswith(".parquet")]) == 2


def _committed(house: House, tables: IcebergSinkTables, number: int) -> CommitRequest:
    writer = tables.writer(TARGET)
    writer.add(records_of({"id": number, "name": "x" * 100}))
    files = writer.finish()
    request = house.request(*files, table=writer.reference())
    *_, commit = tables.commit(TARGET, request)
    assert (commit.files, commit.records) == (1, 1)
    return request


def _ids_in_store(house: House, server: ObjectServer) -> list[int]:
    """As pyiceberg reads them from the store."""
    with closing(sqlite3.connect(house.lake.folder / "catalog.db")) as database:
        ((place,),) = database.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    key, secret = ADMIN.split(":")
    properties = {
        "s3.endpoint": server.endpoint,
        "s3.access-key-id": key,
        "s3.secret-access-key": secret,
        "s3.region": "us-east-1",
    }
    table = StaticTable.from_metadata(place, properties)
    ids: list[int] = table.scan().to_arrow().column("id").to_pylist()
    return ids
