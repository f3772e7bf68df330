"""Conformance suite of lake tables: the rows of the pinned snapshot, or no verdict.

The table is the same for every catalog, so that catalogs differ only in their requests.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import open_connector
from datarecs_core.comparison.planning.scan import TableSnapshot
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Limits, Snapshot, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection
from datarecs_testing.conformance.connector import RecordedReads, delivered, extracted, scan_of
from datarecs_testing.lake import (
    NAMESPACE,
    Lake,
    a_lake,
    data_files,
    delete_equal,
    delete_positions,
    path_of,
)

WORDS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
)
FIRST = pa.table({"id": [1, 2, 3, 9], "word": ["one", "zwei \u20ac", None, "dead"]})
SECOND = pa.table({"id": [4, 5, 8], "word": ["a,b", 'say "x"', "dead too"]})
BOTH = [("1", "one"), ("2", "zwei \u20ac"), ("3", None), ("4", "a,b"), ("5", 'say "x"')]


class TableConnectorConformance(ABC):
    """Subclass with the access to a lake's catalog; nine rows, two of them deleted."""

    secrets: dict[str, str] = {}  # noqa: RUF012  overridden, never changed

    @abstractmethod
    def connection(self, lake: Lake) -> Connection:
        """The connection of a source over the lake's catalog."""

    def publish(self, lake: Lake, table: Table) -> None:
        """Called after every commit; override to notify the catalog."""
        assert lake.catalog is table.catalog

    @pytest.fixture
    def lake(self, tmp_path: Path) -> Iterator[Lake]:
        with ExitStack() as closing:
            yield a_lake(tmp_path / "lake", closing)

    @pytest.fixture
    def table(self, lake: Lake) -> Table:
        made = lake.table("words", WORDS, FIRST, SECOND)
        first = next(file for file in data_files(made) if file.record_count == FIRST.num_rows)
        delete_positions(made, {first.file_path: [3]}, like=first)
        delete_equal(made, pa.table({"id": [8]}))
        self.publish(lake, made)
        return made

    @pytest.fixture
    def source(self, table: Table) -> Source:
        return Source(
            name="s", kind=SourceKind.ICEBERG, connection="c", relation=".".join(table.name())
        )

    @pytest.fixture
    def connector(self, lake: Lake, source: Source) -> Connector:
        return self.connect(lake, source)

    def connect(self, lake: Lake, source: Source) -> Connector:
        return open_connector(
            source, self.connection(lake), self.secrets, surroundings=lake.surroundings
        )

    def test_every_living_row_is_delivered_once(self, connector: Connector, source: Source) -> None:
        assert sorted(delivered(connector, scan_of(connector, source))) == BOTH

    def test_only_the_requested_columns_are_delivered_by_their_logical_names(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        scan = scan_of(connector, source)
        word = replace(scan.column("word"), name="Wort")
        scan = replace(scan, columns=(word,))
        assert sorted(delivered(connector, scan), key=str) == sorted(
            [(each,) for _, each in BOTH], key=str
        )
        brought = connector.extract(scan, str(tmp_path / "out"), RecordedReads())
        assert set(pq.read_schema(extracted(brought)).names) == {"Wort", "$invalid.Wort"}

    def test_an_extract_holds_what_the_rows_say(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        scan, progress = scan_of(connector, source), RecordedReads()
        brought = connector.extract(scan, str(tmp_path / "out"), progress)
        assert brought.extract is not None
        table = pq.read_table(extracted(brought)).to_pylist()
        assert sorted((str(row["id"]), row["word"]) for row in table) == BOTH
        assert (brought.extract.rows, brought.extract.invalid_columns) == (len(BOTH), ())
        assert progress.reads[-1].rows == len(BOTH)

    def test_more_rows_than_the_limit_are_refused(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        scan = replace(scan_of(connector, source), limits=Limits(max_rows=len(BOTH) - 1))
        with pytest.raises(DatarecsError) as caught:
            connector.extract(scan, str(tmp_path / "out"), RecordedReads())
        assert caught.value.code.name == "SOURCE_LIMIT"

    def test_rows_written_after_the_pin_are_not_read(
        self, lake: Lake, connector: Connector, source: Source, table: Table
    ) -> None:
        scan, held = scan_of(connector, source), connector.pin(source)
        assert isinstance(held.pin, TableSnapshot)
        assert isinstance(scan.pin, TableSnapshot)
        assert held.pin.snapshot_id == scan.pin.snapshot_id
        table.append(pa.table({"id": [7], "word": ["late"]}))
        self.publish(lake, table)
        assert sorted(delivered(connector, scan)) == BOTH
        held.check()
        held.close()
        held.close()
        assert len(delivered(connector, scan_of(connector, source))) == len(BOTH) + 1

    def test_a_snapshot_is_read_as_long_as_it_exists(
        self, connector: Connector, source: Source, table: Table
    ) -> None:
        first = table.history()[0].snapshot_id
        earlier = replace(source, snapshot=Snapshot(snapshot_id=first))
        assert len(delivered(connector, scan_of(connector, earlier))) == FIRST.num_rows

    def test_a_snapshot_that_expires_after_the_pin_is_lost(
        self, lake: Lake, connector: Connector, source: Source, table: Table
    ) -> None:
        first = table.history()[0].snapshot_id
        earlier = replace(source, snapshot=Snapshot(snapshot_id=first))
        scan, held = scan_of(connector, earlier), connector.pin(earlier)
        held.check()
        table.maintenance.expire_snapshots().by_id(first).commit()
        self.publish(lake, table)
        for read in (held.check, lambda: delivered(connector, scan)):
            with pytest.raises(DatarecsError, match="expired") as caught:
                read()
            assert caught.value.code.name == "SNAPSHOT_LOST"

    def test_a_missing_table_is_reported_by_its_name(
        self, lake: Lake, source: Source, table: Table
    ) -> None:
        assert table.name()[0] == NAMESPACE
        absent = replace(source, relation=f"{NAMESPACE}.wrods")
        with pytest.raises(DatarecsError, match=r"books\.wrods") as caught:
            self.connect(lake, absent).pin(absent)
        assert caught.value.code.name == "QUERY_ERROR"

    def test_a_broken_data_file_is_corrupt_and_named(
        self, connector: Connector, source: Source, table: Table
    ) -> None:
        scan, path = scan_of(connector, source), path_of(data_files(table)[0])
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(DatarecsError, match=path.name) as caught:
            delivered(connector, scan)
        assert caught.value.code.name == "CORRUPT_SOURCE"

    def test_a_data_file_that_is_gone_loses_the_snapshot(
        self, connector: Connector, source: Source, table: Table
    ) -> None:
        scan, path = scan_of(connector, source), path_of(data_files(table)[0])
        path.unlink()
        with pytest.raises(DatarecsError, match=path.name) as caught:
            delivered(connector, scan)
        assert caught.value.code.name == "SNAPSHOT_LOST"

    def test_a_probe_without_a_source_checks_the_catalog(self, connector: Connector) -> None:
        (step,) = connector.probe()
        assert (step.name, step.ok) == ("catalog", True), step.detail

    def test_a_probe_reports_its_steps_and_ends_at_the_first_that_fails(
        self, lake: Lake, connector: Connector, source: Source
    ) -> None:
        steps = connector.probe(source)
        assert [(step.name, step.ok) for step in steps] == [
            ("table", True),
            ("columns", True),
            ("files", True),
        ]
        absent = replace(source, relation=f"{NAMESPACE}.wrods")
        steps = self.connect(lake, absent).probe(absent)
        assert [(step.ok, step.code) for step in steps] == [(False, "QUERY_ERROR")]
