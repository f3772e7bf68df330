"""Runs over a captured folder: what they know of the catalogue, read of it and pin in it."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from datarecs_application.assignments import Pins, SourceNotPinnedError
from datarecs_application.captured_tables import SnapshotNotCapturedError
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.generations import Generations, Publication
from datarecs_application.catalogue.planned_files import PlannedFiles
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_application.catalogued_sources import Catalogued, CatalogueReads
from datarecs_application.child_frames import BadFrameError
from datarecs_application.ports.outside import BlobStores
from datarecs_application.ports.state import UnitOfWork
from datarecs_connectors.capturing.counted_tree import CountedTree
from datarecs_connectors.capturing.files import FileCaptureSource
from datarecs_connectors.errors import PathRefusedError, QueryFailedError, SnapshotLostError
from datarecs_connectors.file_tree import FileTree
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_connectors.source_trees import SourceTree
from datarecs_core.captures.catalogued import CataloguedTable
from datarecs_core.captures.request import ObjectName
from datarecs_core.captures.selecting import snapshot_id_of
from datarecs_core.catalog.publication import Captured
from datarecs_core.catalog.records import Account, Catalog, Namespace, Snapshot, Table, Upstream
from datarecs_core.comparison.planning.scan import FileList
from datarecs_core.documents import from_document, to_document
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.catalogue import CataloguePreconditionError
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_core.runs.model import Run
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_specs.documents import StoredSpecs
from datarecs_testing.builders import A_TENANT, a_run, an_id
from datarecs_testing.catalogue import (
    ShiftedClock,
    a_catalog,
    a_namespace,
    a_table,
    an_account,
    file_stats,
)
from datarecs_testing.conformance.resources import stored
from datarecs_testing.conformance.stores import Stores

NAME = ObjectName(namespace=("default",), name="orders")
MONDAY = datetime(2026, 1, 5, 12, tzinfo=UTC)
TUESDAY, WEDNESDAY = MONDAY + timedelta(days=1), MONDAY + timedelta(days=2)


@dataclass(kw_only=True)
class CapturedFolder:
    """A folder of CSV files, its connection, and the table of its captures."""

    stores: Stores
    folder: Path
    blobs: BlobStores
    clock: ShiftedClock

    def __post_init__(self) -> None:
        self.folder.mkdir()
        uid = stored(self.stores, name="exports", spec=self.spec).uid
        account = self.account(self.stores.capture.unit)
        Entities(account, Account).create(an_account())
        catalog = Entities(account, Catalog).create(a_catalog(name="exports", connector_ref=uid))
        place = a_namespace(catalog.record.id, "default")
        namespace = Entities(account, Namespace).create(place).record
        upstream = Upstream(
            connector_id=uid,
            uri=f"{self.uri}/orders/",
            namespace=NAME.namespace,
            name=NAME.name,
            format="csv",
            partition_keys=(),
            column_ids="PATH_ORDINAL",
        )
        self.table: Table = (
            Tables(account).create(a_table(namespace, name=NAME.name, upstream=upstream)).record
        )

    @property
    def spec(self) -> dict[str, object]:
        """Of the connection."""
        return {"type": "files", "config": {"root": str(self.folder)}}

    @property
    def uri(self) -> str:
        return f"file://{self.folder}"

    def tree(self) -> SourceTree:
        """What a capture reads."""
        return FileTree(source="capture", root=self.folder, now=self.clock.now)

    def account(self, unit: UnitOfWork) -> CatalogueAccount:
        return CatalogueAccount(
            tenant=A_TENANT,
            pointers=PointerStore(unit=unit, tenant=A_TENANT),
            blobs=self.blobs.of(A_TENANT),
            clock=self.clock,
        )

    def write(self, name: str, rows: str, at: datetime) -> Path:
        file = self.folder / "orders" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"id\n{rows}\n")
        os.utime(file, (at.timestamp(), at.timestamp()))
        return file

    def newest_time(self) -> datetime:
        """Of the files: each capture is made as soon as the newest file has come."""
        times = [file.stat().st_mtime for file in (self.folder / "orders").iterdir()]
        return datetime.fromtimestamp(max(times), UTC)

    def capture(self, generation: str = "base", *, with_files: bool = True) -> int:
        """Capture the current files as the workers of captures do; the id of the snapshot."""
        source = FileCaptureSource(
            tree=CountedTree(tree=self.tree()), uri=self.uri, now=self.newest_time
        )
        (described,) = source.table(NAME, known=()).snapshots
        number, account = (
            snapshot_id_of(described.native_id),
            self.account(self.stores.capture.unit),
        )
        Snapshots(account).ingest(
            Snapshot(
                table_id=self.table.id,
                snapshot_id=number,
                native_id=described.native_id,
                committed_at=described.committed_at,
                ingested_at=self.clock.now(),
                columns=described.columns,
                summary={},
            ),
            is_current=True,
        )
        if not with_files:
            return number
        if generation != "base":
            Generations(account).begin_draft(self.table.id, number, generation)
        records = [
            file_stats(
                self.table, number, one.path, size_bytes=one.size_bytes, etag=one.etag, format="csv"
            )
            for one in source.files(NAME, described.native_id)
        ]
        Statistics(account).put_files(records, generation=generation)
        Generations(account).publish(
            Publication(
                table_id=self.table.id,
                snapshot_id=number,
                generation=generation,
                publication_sha=generation.encode().hex().ljust(64, "0")[:64],
                finalizer_job_id=an_id(),
                finalized_at=self.clock.now(),
                captured=Captured(outputs=("TABLE_STATS",), columns_sha256=""),
            )
        )
        return number

    def plan(self) -> int:
        """A capture that was cancelled when its files were listed; the id of the snapshot."""
        number, account = (
            self.capture(with_files=False),
            self.account(self.stores.capture.unit),
        )
        snapshot = Snapshots(account).get(self.table.id, number)
        assert snapshot is not None
        source = FileCaptureSource(
            tree=CountedTree(tree=self.tree()), uri=self.uri, now=self.newest_time
        )
        files = source.files(NAME, snapshot.native_id)
        PlannedFiles(account=account).put(self.table.id, number, files)
        return number

    def reads(
        self, as_of: datetime | None = None, *, path: str = "orders/", run: Run | None = None
    ) -> CatalogueReads:
        """Of a run with one source below the connection."""
        snapshot = {} if as_of is None else {"snapshot": {"as_of": as_of.isoformat()}}
        sources = [
            {"name": name, "kind": "csv", "connection": "exports", "path": path, **snapshot}
            for name in ("one", "two")
        ]
        stages = [{"name": "how-many", "type": "counts"}]
        return CatalogueReads(
            unit=self.stores.worker.unit,
            blobs=self.blobs,
            clock=self.clock,
            run=run or a_run(),
            job=StoredSpecs().job("orders", {"sources": sources, "stages": stages}),
        )

    def pin(self, reads: CatalogueReads) -> FileList:
        """The pin of the first source, by a child that gets the frame of the supervisor."""
        reads.read()
        frame = reads.frame().get("catalogued", {"by_source": {}})
        table = from_document(Catalogued, frame).by_source.get("one")
        return self._pin(reads.job.sources[0], table)

    def _pin(self, source: Source, table: CataloguedTable | None) -> FileList:
        surroundings = Surroundings(
            roots=(self.folder,),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=self.clock.now,
            catalogued=table,
        )
        connection = Connection(
            type=ConnectionType.FILES, config=FilesConfig(root=str(self.folder))
        )
        connector = open_connector(source, connection, {}, surroundings=surroundings)
        held = connector.pin(source)
        try:
            pin = held.check()
        finally:
            held.close()
            connector.close()
        assert isinstance(pin, FileList)
        return pin


def paths(pin: FileList) -> list[str]:
    return [file.path for file in pin.files]


class CataloguedRunsConformance:
    """Subclass it and provide the fixture `stores`."""

    @pytest.fixture
    def captured(self, stores: Stores, tmp_path: Path) -> CapturedFolder:
        """Two files of Monday, which were captured; a third came on Wednesday."""
        clock = ShiftedClock()
        folder = CapturedFolder(
            stores=stores,
            folder=tmp_path / "exports",
            blobs=MemoryBlobStores(clock),
            clock=clock,
        )
        folder.write("a.csv", "1", MONDAY)
        folder.write("b.csv", "2", MONDAY)
        folder.capture()
        folder.write("c.csv", "3", WEDNESDAY)
        return folder

    def test_a_source_reads_the_files_of_a_time(self, captured: CapturedFolder) -> None:
        current = captured.capture()
        earlier = captured.pin(captured.reads(TUESDAY))
        assert paths(earlier) == ["orders/a.csv", "orders/b.csv"]
        assert earlier.catalogued is not None
        assert earlier.catalogued.committed_at == MONDAY
        assert earlier.catalogued.snapshot_id != current
        later = captured.pin(captured.reads(WEDNESDAY + timedelta(seconds=1)))
        assert paths(later) == ["orders/a.csv", "orders/b.csv", "orders/c.csv"]
        assert later.catalogued is not None
        assert later.catalogued.snapshot_id == current

    def test_a_part_of_the_table_is_read_as_it_was(self, captured: CapturedFolder) -> None:
        pin = captured.pin(captured.reads(TUESDAY, path="orders/[bc].csv"))
        assert (paths(pin), pin.catalogued) == (["orders/b.csv"], None)
        with pytest.raises(QueryFailedError, match=r"has no file at 'orders/c\.csv'"):
            captured.pin(captured.reads(TUESDAY, path="orders/c.csv"))

    @pytest.mark.parametrize(
        "path",
        [
            *("orders", "orders/", "./orders", "./orders/.//", "orders//", "orders/./"),
            *("orders/*", "orders/./*.csv", "orders/part-*", "orders/[.]hidden.csv"),
            *("orders/[[]x].csv", "orders/[[]x].*", "orders/50%41.csv", "orders/B.CSV"),
            *("orders/sub", "./orders/sub/", "orders/s*", "orders/s*/x.csv", "orders/a b.csv"),
        ],
    )
    def test_each_form_of_a_path_reads_the_same_files_with_and_without_a_time(
        self, captured: CapturedFolder, path: str
    ) -> None:
        names = ("B.CSV", "part-0001", ".hidden.csv", "_part.csv", "_SUCCESS", "_tmp/x.csv")
        for name in (*names, "[x].csv", "50%41.csv", "a b.csv", "ü.csv", "sub/x.csv", "sub/y"):
            captured.write(name, "1", WEDNESDAY)
        captured.capture()
        current = captured.pin(captured.reads(path=path))
        then = captured.pin(captured.reads(captured.clock.now(), path=path))
        assert paths(then) == paths(current) != []
        assert then.catalogued == current.catalogued

    @pytest.mark.parametrize(
        "path",
        ["orders/_tmp/x.csv", "orders/_SUCCESS", "s3://lake/orders/", "orders.csv", "[o]rders/"],
    )
    def test_a_path_beside_the_table_reads_nothing_of_a_time(
        self, captured: CapturedFolder, path: str
    ) -> None:
        for name in ("_tmp/x.csv", "_SUCCESS"):
            captured.write(name, "1", WEDNESDAY)
        captured.capture()
        with pytest.raises((SourceNotPinnedError, QueryFailedError, PathRefusedError)):
            captured.pin(captured.reads(captured.clock.now(), path=path))

    def test_a_time_that_is_still_to_come_is_refused(self, captured: CapturedFolder) -> None:
        captured.capture()
        now = captured.clock.now()
        assert captured.pin(captured.reads(now + timedelta(seconds=50))).catalogued is not None
        for years in (1, 10):
            with pytest.raises(SourceNotPinnedError) as refused:
                captured.reads(now + timedelta(days=365 * years)).read()
            assert "is still to come" in str(refused.value.__cause__)
        captured.clock.advance(timedelta(days=366))
        assert captured.pin(captured.reads(now + timedelta(days=365))).catalogued is not None

    def test_a_file_that_is_gone_or_changed_is_named(self, captured: CapturedFolder) -> None:
        file = captured.write("b.csv", "9", MONDAY)
        with pytest.raises(SnapshotLostError, match=r"orders/b\.csv of snapshot .* has changed"):
            captured.pin(captured.reads(TUESDAY))
        file.unlink()
        with pytest.raises(SnapshotLostError, match=r"orders/b\.csv of snapshot .* is gone"):
            captured.pin(captured.reads(TUESDAY))
        (captured.folder / "orders" / "a.csv").unlink()
        with pytest.raises(SnapshotLostError, match=r"orders/a\.csv of snapshot .* is gone"):
            captured.pin(captured.reads(TUESDAY))

    def test_a_run_names_the_snapshot_that_it_reads(self, captured: CapturedFolder) -> None:
        assert captured.pin(captured.reads()).catalogued is None
        number = captured.capture()
        pin = captured.pin(captured.reads())
        assert pin.catalogued is not None
        assert (pin.catalogued.snapshot_id, pin.catalogued.committed_at) == (number, WEDNESDAY)
        assert captured.pin(captured.reads(path="orders/a.csv")).catalogued is None
        captured.write("c.csv", "4", WEDNESDAY)
        assert captured.pin(captured.reads()).catalogued is None

    def test_a_time_without_a_captured_snapshot_is_refused(self, captured: CapturedFolder) -> None:
        for reads in (
            captured.reads(MONDAY - timedelta(seconds=1)),
            captured.reads(TUESDAY, path="payments/"),
            captured.reads(TUESDAY, path="*/a.csv"),
        ):
            with pytest.raises(SourceNotPinnedError) as refused:
                reads.read()
            assert isinstance(refused.value.__cause__, SnapshotNotCapturedError)
        captured.capture(with_files=False)
        with pytest.raises(SourceNotPinnedError) as refused:
            captured.reads(WEDNESDAY + timedelta(days=1)).read()
        assert "its files were not captured" in str(refused.value.__cause__)

    def test_a_source_reads_the_files_that_a_capture_planned_before_it_was_cancelled(
        self, captured: CapturedFolder
    ) -> None:
        number = captured.plan()
        pin = captured.pin(captured.reads(WEDNESDAY + timedelta(days=1)))
        assert paths(pin) == ["orders/a.csv", "orders/b.csv", "orders/c.csv"]
        assert pin.catalogued is not None
        assert pin.catalogued.snapshot_id == number
        reads = captured.reads(WEDNESDAY + timedelta(days=1))
        reads.read()
        document = to_document(Pins(by_source={"one": pin}))
        assert isinstance(document, dict)
        reads.protect(document)
        with pytest.raises(CataloguePreconditionError, match="has pinned it"):
            Snapshots(captured.account(captured.stores.capture.unit)).remove(
                captured.table.id, number
            )
        captured.write("a.csv", "5", TUESDAY)
        with pytest.raises(SnapshotLostError, match=r"orders/a\.csv of snapshot .* has changed"):
            captured.pin(captured.reads(WEDNESDAY + timedelta(days=1)))

    def test_a_folder_without_a_capture_changes_nothing(self, captured: CapturedFolder) -> None:
        reads = captured.reads(path="payments/")
        reads.read()
        assert (reads.frame(), reads.tables) == ({}, {})

    @pytest.mark.case("S47")
    def test_what_a_run_reads_stays_until_its_retention_ends(
        self, captured: CapturedFolder
    ) -> None:
        reads = captured.reads(TUESDAY, run=a_run(run_id=an_id()))
        pin = captured.pin(reads)
        assert pin.catalogued is not None
        number, table = pin.catalogued.snapshot_id, captured.table.id
        document = to_document(Pins(by_source={"one": pin}))
        assert isinstance(document, dict)
        for _ in range(2):
            reads.protect({**document, "plan_hash": "sha256:1"})
        snapshots = Snapshots(captured.account(captured.stores.capture.unit))
        for name in ("c.csv",):
            (captured.folder / "orders" / name).unlink()
        captured.capture("rescan")
        assert snapshots.pinned(table, reads.run.run_id).current_snapshot_id == number
        pinned = snapshots.pinned(table, reads.run.run_id).statistics
        assert pinned is not None
        assert pinned.generation == "base"
        with pytest.raises(CataloguePreconditionError, match="has pinned it"):
            snapshots.remove(table, number)
        captured.stores.pass_time(reads.job.results.breaks.retention + timedelta(minutes=1))
        captured.clock.advance(reads.job.results.breaks.retention + timedelta(minutes=1))
        assert snapshots.remove(table, number)

    def test_a_child_pins_no_snapshot_that_it_does_not_know(self, captured: CapturedFolder) -> None:
        reads = captured.reads(TUESDAY)
        pin = captured.pin(reads)
        assert pin.catalogued is not None
        for foreign in (
            replace(pin.catalogued, table_id=an_id()),
            replace(pin.catalogued, snapshot_id=7),
        ):
            document = to_document(Pins(by_source={"one": replace(pin, catalogued=foreign)}))
            assert isinstance(document, dict)
            with pytest.raises(BadFrameError):
                reads.protect(document)
        with pytest.raises(BadFrameError):
            reads.protect({"by_source": "none"})
