"""Files of a sink: partitions, sizes, places, and what is never in them."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.errors import ConnectionFailedError
from datarecs_connectors.sinking.files import NewFile
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.definition import DynamicTables, SinkTarget
from datarecs_core.sink.dynamic import named_table
from datarecs_testing.lake import path_at

from .sink_house import TARGET, House, records_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))

_INSTANTS = ("2026-01-31T12:00:00", "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00")
_OF_TIMES: tuple[Transform[Any, Any], ...] = (
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
)
_TIMED: list[tuple[IcebergType, Transform[Any, Any], tuple[Any, ...]]] = [
    (kind, transform, (*(f"{at}{zone}" for at in _INSTANTS), None))
    for kind, zone in ((TimestampType(), ""), (TimestamptzType(), "Z"))
    for transform in _OF_TIMES
]
TRANSFORMS: list[tuple[IcebergType, Transform[Any, Any], tuple[Any, ...]]] = [
    (StringType(), IdentityTransform(), ("a", "b/c", "", "..", "é", None)),
    (BooleanType(), IdentityTransform(), (True, False, None)),
    (LongType(), IdentityTransform(), (1, -1, 0, None)),
    (DoubleType(), IdentityTransform(), (1, -1, 0, None)),
    (DecimalType(9, 2), IdentityTransform(), (1, -1, None)),
    (DateType(), IdentityTransform(), ("2026-01-31", "1969-12-31", None)),
    (TimeType(), IdentityTransform(), ("12:00", None)),
    (TimestamptzType(), IdentityTransform(), ("2026-01-31T12:00:00Z", None)),
    (UUIDType(), IdentityTransform(), ("018f6f7c-0000-7000-8000-000000000001", None)),
    (BinaryType(), IdentityTransform(), ("AAAA", None)),
    (StringType(), BucketTransform(4), (*"abcdefgh", None)),
    (LongType(), BucketTransform(4), (*range(-8, 8), None)),
    (IntegerType(), BucketTransform(4), (*range(-8, 8), None)),
    (DecimalType(9, 2), BucketTransform(4), (*range(-8, 8), None)),
    (DateType(), BucketTransform(4), ("2026-01-31", "1969-12-31", None)),
    (TimeType(), BucketTransform(4), ("12:00", None)),
    (TimestampType(), BucketTransform(4), ("2026-01-31T12:00:00", None)),
    (TimestamptzType(), BucketTransform(4), ("2026-01-31T12:00:00Z", None)),
    (UUIDType(), BucketTransform(4), ("018f6f7c-0000-7000-8000-000000000001", None)),
    (BinaryType(), BucketTransform(4), ("AAAA", "AAAB", None)),
    (StringType(), TruncateTransform(2), ("abc", "abd", "x", "", None)),
    (LongType(), TruncateTransform(10), (-1, 0, 9, 10, None)),
    (DecimalType(9, 2), TruncateTransform(50), (1, 2, -1, None)),
    (DateType(), YearTransform(), ("2026-01-31", "1969-12-31", None)),
    (DateType(), MonthTransform(), ("2026-01-31", "1969-12-31", None)),
    (DateType(), DayTransform(), ("2026-01-31", "1969-12-31", None)),
    *_TIMED,
    (StringType(), VoidTransform(), ("a", None)),
]


@pytest.mark.parametrize(("kind", "transform", "values"), TRANSFORMS, ids=str)
def test_each_transform_divides_rows_as_pyiceberg_does(
    house: House, kind: IcebergType, transform: Transform[Any, Any], values: tuple[Any, ...]
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "c", kind))
    house.lake.table("orders", schema, spec=PartitionSpec(PartitionField(2, 1000, transform, "p")))
    records = records_of(*({"id": at, "c": value} for at, value in enumerate(values * 3)))
    files = house.write(records)
    assert len({file.partition for file in files}) == len(files)
    house.commit(house.request(*files))
    table = house.table()
    (spec_field,) = table.spec().fields
    apply = transform.transform(kind)
    for file in files:
        (field,) = file.partition
        assert (field.field_id, field.name) == (1000, "p")
        stored = field.value.bytes if isinstance(field.value, UUID) else field.value
        for value in pq.read_table(path_at(file.path)).column("c").to_pylist():
            raw = value.bytes if isinstance(value, UUID) else value
            wanted = apply(raw)
            if not isinstance(wanted, int):
                wanted = partition_record_value(spec_field, wanted, schema)
            assert stored == wanted
    assert sorted(row["id"] for row in house.rows()) == list(range(len(records)))
    missing = table.scan(row_filter="c is null").to_arrow().column("id").to_pylist()
    assert len(missing) == 3


def test_two_fields_divide_together_and_a_nested_source_is_reached(house: House) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(
            2,
            "who",
            StructType(NestedField(3, "land", StringType(), required=False)),
            required=False,
        ),
    )
    spec = PartitionSpec(
        PartitionField(3, 1000, IdentityTransform(), "land"),
        PartitionField(1, 1001, BucketTransform(2), "id_bucket"),
    )
    house.lake.table("orders", schema, spec=spec)
    records = records_of(
        *({"id": n, "who": {"land": "de" if n % 3 else "at"}} for n in range(30)),
        {"id": 99, "who": None},
    )
    files = house.write(records)
    assert len(files) == 5
    house.commit(house.request(*files))
    assert sorted(row["id"] for row in house.rows()) == [*range(30), 99]
    austrian = house.table().scan(row_filter="who.land = 'at'")
    assert len(list(austrian.plan_files())) == 2
    assert austrian.to_arrow().num_rows == 10


class TestFiles:
    def test_rows_that_were_flushed_become_one_file_until_the_target_size(
        self, house: House
    ) -> None:
        house.lake.table("orders", SCHEMA)
        with house.table().transaction() as change:
            change.set_properties({"write.target-file-size-bytes": "4000"})
        writer = house.tables().writer(TARGET)
        for start in range(0, 1000, 200):
            writer.add(records_of(*({"id": number} for number in range(start, start + 200))))
            assert writer.size() > 0
            writer.flush()
            assert writer.size() == 0
        files = writer.finish()
        assert [file.record_count for file in files] == [600, 400]
        assert writer.finish() == ()
        house.commit(house.request(*files))
        assert sorted(row["id"] for row in house.rows()) == list(range(1000))
        assert all(file.split_offsets and file.size == _size(file.path) for file in files)

    def test_properties_of_parquet_are_obeyed_and_bounds_are_there(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        with house.table().transaction() as change:
            change.set_properties(
                {
                    "write.parquet.compression-codec": "snappy",
                    "write.parquet.row-group-size-bytes": "1000",
                    "write.metadata.metrics.default": "counts",
                }
            )
        (file,) = house.write(records_of({"id": 1}))
        assert (dict(file.lower_bounds), dict(file.value_counts)) == ({}, {1: 1})
        house.commit(house.request(file))
        path = file.path.removeprefix("file://")
        assert house.duck(f"FROM parquet_metadata('{path}') SELECT compression LIMIT 1") == [
            ("SNAPPY",)
        ]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("write.parquet.compression-codec", "zip"),
            ("write.parquet.page-size-bytes", "many"),
            ("write.metadata.metrics.default", "some"),
        ],
    )
    def test_a_property_that_cannot_be_obeyed_is_named(
        self, house: House, name: str, value: str
    ) -> None:
        house.lake.table("orders", SCHEMA)
        house.set_property(name, value)
        writer = house.tables().writer(TARGET)
        writer.add(records_of({"id": 1}))
        with pytest.raises(SinkError, match="cannot be obeyed") as refused:
            writer.finish()
        assert refused.value.code is SinkCode.FILE_FORMAT_UNSUPPORTED
        writer.discard()
        assert not list(house.lake.folder.rglob("*.parquet"))

    def test_discarded_rows_and_files_are_gone(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables().writer(TARGET)
        writer.add(records_of({"id": 1}))
        writer.flush()
        writer.add(records_of({"id": 2}))
        writer.discard()
        assert not list(house.lake.folder.rglob("*.parquet"))
        assert writer.finish() == ()
        writer.add(records_of({"id": 3}))
        house.commit(house.request(*writer.finish()))
        assert house.rows() == [{"id": 3}]

    def test_a_writer_takes_over_a_changed_schema_after_a_finish(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables().writer(TARGET)
        writer.add(records_of({"id": 1, "more": 1}))
        first = writer.finish()
        with house.table().update_schema() as change:
            change.add_column("more", LongType())
        writer.add(records_of({"id": 2, "more": 2}))
        house.commit(house.request(*first, *writer.finish()))
        assert sorted(house.rows(), key=lambda row: row["id"]) == [
            {"id": 1, "more": None},
            {"id": 2, "more": 2},
        ]
        assert writer.dropped_fields == 1

    def test_a_full_disk_is_named_and_leaves_nothing_behind(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables().writer(TARGET)
        writer.add(records_of({"id": 1}))

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(ConnectionFailedError, match="No space left"):
                writer.finish()
        writer.discard()
        assert not list(house.lake.folder.rglob("*.parquet"))
        request = house.request(*house.write(records_of({"id": 2})))
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(SinkError, match="No space left") as failed:
                house.commit(request)
        assert failed.value.code is SinkCode.COMMIT_FAILED
        assert not list(house.lake.folder.rglob("*.avro"))
        assert house.commit(request) is not None

    def test_a_file_is_on_disk_before_it_is_named_and_never_replaces_another(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[int] = []
        fsync = os.fsync

        def counted(descriptor: int) -> None:
            synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", counted)
        places = house.catalog.places
        place = f"file://{house.lake.folder}/new/deep/file"
        with NewFile(place, places).create() as stream:
            stream.write(b"first")
        assert synced == [stat.S_IFDIR, stat.S_IFDIR, stat.S_IFREG, stat.S_IFDIR]
        with pytest.raises(FileExistsError):
            NewFile(place, places).create(overwrite=True)
        assert Path(place.removeprefix("file://")).read_bytes() == b"first"

    def test_many_partitions_are_written_with_few_open_files(self, house: House) -> None:
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
        house.lake.table("orders", SCHEMA, spec=spec)
        files = house.write(records_of(*({"id": number} for number in range(150))))
        assert len(files) == 150
        house.commit(house.request(*files))
        assert len(house.rows()) == 150


def _size(place: str) -> int:
    return Path(place.removeprefix("file://")).stat().st_size


class TestReference:
    def test_a_table_created_again_in_the_window_gets_no_files(self, house: House) -> None:
        first = house.lake.table("orders", SCHEMA)
        writer = house.tables().writer(TARGET)
        writer.add(records_of({"id": 1}))
        house.lake.catalog.drop_table("books.orders")
        house.lake.table("orders", SCHEMA)
        writer.add(records_of({"id": 2}))
        files, table = writer.finish(), writer.reference()
        assert table.uuid == first.metadata.table_uuid
        with pytest.raises(SinkError, match="another one") as lost:
            house.commit(house.request(*files, table=table))
        assert lost.value.code is SinkCode.TABLE_LOST
        assert house.rows() == []

    def test_a_writer_without_records_has_no_table(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        with pytest.raises(SinkError, match="no record"):
            house.tables().writer(TARGET).reference()


class TestNamedTables:
    @pytest.mark.case("I39")
    def test_a_named_table_is_created_in_its_namespace_and_committed(self, house: House) -> None:
        rule = DynamicTables(catalog="lake", namespace=("north",), path="kind")
        target = named_table(rule, "Orders")
        files = house.write(
            records_of({"id": 1}), target, tables=(), dynamic=rule, auto_create=True
        )
        place = SinkTarget(catalog="lake", namespace=target.namespace, name=target.name)
        assert house.commit(house.request(*files, target=target), place) is not None
        table = house.lake.catalog.load_table("north.orders")
        assert table.scan().to_arrow().column("id").to_pylist() == [1]

    @pytest.mark.case("I40")
    def test_a_missing_named_table_is_named(self, house: House) -> None:
        rule = DynamicTables(catalog="lake", namespace=("north",), path="kind")
        tables = house.tables(tables=(), dynamic=rule)
        with pytest.raises(SinkError, match=r"north\.orders") as lost:
            tables.writer(named_table(rule, "orders"))
        assert lost.value.code is SinkCode.TABLE_LOST


class TestRefusals:
    def refused(self, house: House, code: SinkCode) -> SinkError:
        with pytest.raises(SinkError) as refused:
            house.tables().writer(TARGET)
        assert refused.value.code is code
        return refused.value

    @pytest.mark.case("I40")
    def test_a_missing_table_is_named(self, house: House) -> None:
        assert "books.orders" in str(self.refused(house, SinkCode.TABLE_LOST))

    @pytest.mark.case("I52")
    @pytest.mark.parametrize("file_format", ["orc", "avro"])
    def test_a_table_of_other_files_is_refused(self, house: House, file_format: str) -> None:
        house.lake.table("orders", SCHEMA)
        with house.table().transaction() as change:
            change.set_properties({"write.format.default": file_format})
        assert file_format in str(self.refused(house, SinkCode.FILE_FORMAT_UNSUPPORTED))

    @pytest.mark.case("I52")
    def test_a_table_of_format_version_3_is_refused(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        file = path_at(house.table().metadata_location)
        document = json.loads(file.read_bytes())
        file.write_text(json.dumps({**document, "format-version": 3, "next-row-id": 0}))
        assert "version 3" in str(self.refused(house, SinkCode.FORMAT_VERSION_UNSUPPORTED))

    @pytest.mark.case("I67")
    @pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path"])
    @pytest.mark.parametrize(
        "place",
        [
            "file:///elsewhere/data",
            "file://{lake}/../../data",
            "s3://bucket/data",
            "{lake}/link/data",
            "http://h/x",
        ],
    )
    def test_a_path_outside_the_places_of_the_connection_is_refused_before_a_byte(
        self, house: House, tmp_path: Path, name: str, place: str
    ) -> None:
        house.lake.table("orders", SCHEMA)
        outside = tmp_path / "outside"
        outside.mkdir()
        (house.lake.folder / "link").symlink_to(outside)
        house.set_property(name, place.format(lake=house.lake.folder))
        self.refused(house, SinkCode.FILE_LOCATION_REFUSED)
        assert not list(outside.iterdir())

    @pytest.mark.case("I67")
    def test_a_location_that_moves_outside_is_refused_by_the_commit_as_well(
        self, house: House
    ) -> None:
        house.lake.table("orders", SCHEMA)
        request = house.request(*house.write(records_of({"id": 1})))
        house.set_property("write.metadata.path", "file:///elsewhere")
        with pytest.raises(SinkError) as refused:
            house.commit(request)
        assert refused.value.code is SinkCode.FILE_LOCATION_REFUSED

    @pytest.mark.case("I67")
    def test_a_table_in_the_folder_of_another_tenant_is_refused(
        self, house: House, tmp_path: Path
    ) -> None:
        house.lake.table("orders", SCHEMA)
        folder = tmp_path / "allowed"
        folder.mkdir()
        (folder / "catalog.db").write_bytes((house.lake.folder / "catalog.db").read_bytes())
        house.roots = (folder,)
        self.refused(house, SinkCode.FILE_LOCATION_REFUSED)

    @pytest.mark.case("I72")
    def test_a_hadoop_catalog_is_refused(self, house: House) -> None:
        house.config = house.lake.hadoop.config  # type: ignore[assignment]  # of type iceberg
        error = self.refused(house, SinkCode.CATALOG_UNSUPPORTED)
        assert "hadoop" in str(error)

    def test_an_unknown_catalog_is_refused(self, house: House) -> None:
        with pytest.raises(SinkError, match="no connection"):
            house.tables().writer(replace(TARGET, catalog="other"))

    def test_a_class_that_a_property_names_is_never_loaded(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        house.set_property("write.py-location-provider.impl", "os.system")
        assert house.write(records_of({"id": 1}))
