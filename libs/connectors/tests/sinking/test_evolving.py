"""Schemas that follow the records: what is added, what is widened, and who changes them first."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from datarecs_connectors.iceberg.catalogs import CurrentTable, TableName
from datarecs_connectors.sinking import evolving
from datarecs_connectors.sinking.catalog_changes import (
    ConflictError,
    NewTable,
    OutcomeUnknownError,
    TableChange,
)
from datarecs_connectors.sinking.schema_changes import SchemaChanger
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.resources.connection import (
    CatalogType,
    IcebergConfig,
    RestCatalog,
    SqlCatalog,
)
from datarecs_core.sink.definition import Evolution, MetadataColumns
from datarecs_testing.lake import Lake, path_at
from datarecs_testing.lake_server import CLIENT, SECRET, serving

from .sink_house import TARGET, House, records_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
POINT = StructType(NestedField(11, "x", LongType(), required=False))


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.integration)])
def any_house(request: pytest.FixtureRequest, lake: Lake, house: House) -> Iterator[House]:
    """The tables of a sink in each kind of catalog."""
    if request.param == "sql":
        yield house
        return
    with serving(lake.folder / "catalog.db") as server:
        catalog = RestCatalog(type=CatalogType.REST, uri=server.url)
        secrets = {"credential": f"{CLIENT}:{SECRET}"}
        yield replace(house, config=IcebergConfig(catalog=catalog), secrets=secrets)


def columns(house: House) -> dict[str, str]:
    """Name and type of each column, with an exclamation mark if it is required."""
    return {
        field.name: f"{field.field_type}{'!' if field.required else ''}"
        for field in house.table().schema().fields
    }


def written(house: House, evolve: Evolution, *values: dict[str, Any]) -> None:
    """All values in one batch, and a commit."""
    files = house.write(records_of(*values), evolve=evolve)
    house.commit(house.request(*files))


class TestNewColumns:
    @pytest.mark.case("I42")
    def test_two_workers_that_meet_one_new_field_make_one_column(self, any_house: House) -> None:
        any_house.lake.table("orders", SCHEMA)
        writers = [any_house.tables(evolve=Evolution.ADD).writer(TARGET) for _ in range(4)]
        for number, writer in enumerate(writers):
            writer.add(records_of({"id": number}))
        barrier = Barrier(len(writers))

        def meet(number: int) -> None:
            barrier.wait(timeout=30)
            writers[number].add(records_of({"id": 10 + number, "color": f"c{number}"}))

        with ThreadPoolExecutor(len(writers)) as pool:
            list(pool.map(meet, range(len(writers))))
        for writer in writers:
            files = writer.finish()
            assert len(files) == 2
            any_house.commit(any_house.request(*files))
        field = any_house.table().schema().find_field("color")
        assert (field.field_id, field.required, field.field_type) == (2, False, StringType())
        rows = {row["id"]: row["color"] for row in any_house.rows()}
        assert rows == dict.fromkeys(range(4)) | {10 + n: f"c{n}" for n in range(4)}
        duck = "SELECT id, color FROM read_parquet({}, union_by_name = true)"
        files_read = [task.file.file_path[7:] for task in any_house.table().scan().plan_files()]
        assert len(any_house.duck(duck.format(files_read))) == 8

    @pytest.mark.case("I42")
    def test_conflicting_types_are_one_bad_path_and_no_half_change(self, any_house: House) -> None:
        any_house.lake.table("orders", SCHEMA)
        writer = any_house.tables(evolve=Evolution.ADD).writer(TARGET)
        batch = records_of({"id": 1, "size": 4}, {"id": 2, "size": "large", "color": "red"})
        with pytest.raises(BadRecordError) as refused:
            writer.add(batch)
        assert (refused.value.at, refused.value.path) == (1, "size")
        assert columns(any_house) == {"id": "long"}
        writer.add(batch[:1])
        assert columns(any_house) == {"id": "long", "size": "long"}

    def test_fields_inside_of_columns_become_members(self, any_house: House) -> None:
        schema = Schema(
            NestedField(1, "id", LongType(), required=False),
            NestedField(2, "point", POINT, required=False),
            NestedField(3, "line", ListType(4, POINT.model_copy(), element_required=False)),
            NestedField(5, "named", MapType(6, StringType(), 7, LongType(), value_required=False)),
        )
        any_house.lake.table("orders", schema)
        value = {
            "id": 1,
            "point": {"x": 1, "y": 2},
            "line": [None, {"x": 1, "z": [{"deep": True}]}],
            "named": {"first": 1},
            "more": {"inner": "text", "unknown": None},
        }
        written(any_house, Evolution.ADD, value, {"id": 2})
        (row, empty) = sorted(any_house.rows(), key=lambda row: row["id"])
        assert row["point"] == {"x": 1, "y": 2}
        assert row["line"] == [None, {"x": 1, "z": [{"deep": True}]}]
        assert row["more"] == {"inner": "text"}
        assert (empty["id"], empty["point"], empty["more"]) == (2, None, None)
        assert any_house.duck("SELECT line, named FROM ORDERS WHERE id = 2") == [(None, None)]

    def test_files_before_and_after_a_change_are_in_one_snapshot(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables(evolve=Evolution.ADD).writer(TARGET)
        writer.add(records_of({"id": 1}))
        writer.flush()
        writer.add(records_of({"id": 2, "color": "red"}))
        writer.add(records_of({"id": 3, "color": "blue", "gone": None}))
        assert writer.dropped_fields == 1
        files = writer.finish()
        assert [file.record_count for file in files] == [1, 2]
        house.commit(house.request(*files))
        assert len(house.table().snapshots()) == 1
        colors = {row["id"]: row["color"] for row in house.rows()}
        assert colors == {1: None, 2: "red", 3: "blue"}

    def test_a_discard_removes_the_files_of_every_schema(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables(evolve=Evolution.ADD).writer(TARGET)
        writer.add(records_of({"id": 1}))
        writer.add(records_of({"id": 2, "color": "red"}))
        writer.flush()
        writer.discard()
        assert not list(house.lake.folder.rglob("*.parquet"))
        assert writer.finish() == ()

    def test_without_evolve_unknown_fields_are_left_out(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        written(house, Evolution.NONE, {"id": 1, "color": "red"})
        assert columns(house) == {"id": "long"}

    @pytest.mark.parametrize("evolve", [Evolution.ADD, Evolution.FULL])
    def test_a_record_that_is_bad_anyway_changes_nothing(
        self, house: House, evolve: Evolution
    ) -> None:
        house.lake.table("orders", SCHEMA)
        with pytest.raises(BadRecordError) as refused:
            written(house, evolve, {"id": 1}, {"id": "one", "color": "red"})
        assert (refused.value.at, refused.value.path) == (1, "id")
        assert columns(house) == {"id": "long"}

    def test_names_that_no_table_can_have_together_are_a_bad_record(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        values: list[dict[str, Any]] = [
            {"id": 1},
            {"a": {"b": 1}},
            {"id": 2},
            {"a.b": 1},
            {"id": 3},
        ]
        with pytest.raises(BadRecordError, match="one name") as refused:
            written(house, Evolution.ADD, *values)
        assert refused.value.at == 3
        written(house, Evolution.ADD, *values[:3])

    def test_a_new_field_cannot_have_the_name_of_a_partition(self, house: House) -> None:
        schema = Schema(NestedField(1, "at", TimestamptzType(), required=False))
        spec = PartitionSpec(PartitionField(1, 1000, DayTransform(), "at_day"))
        house.lake.table("orders", schema, spec=spec)
        with pytest.raises(BadRecordError, match="one name"):
            written(house, Evolution.ADD, {"at": "2026-01-31T12:00:00Z", "at_day": "x"})

    def test_a_table_does_not_grow_without_end(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(evolving, "MOST_FIELDS", 3)
        house.lake.table("orders", SCHEMA)
        with pytest.raises(BadRecordError, match="more than 3 fields") as refused:
            written(house, Evolution.ADD, *({f"f{number}": number} for number in range(5)))
        assert refused.value.at == 2


WIDER = [
    (IntegerType(), 2**31, LongType()),
    (IntegerType(), str(2**31), LongType()),
    (FloatType(), Decimal("0.123456789012"), DoubleType()),
    (DecimalType(4, 2), Decimal("12345.67"), DecimalType(7, 2)),
    (DecimalType(4, 2), 10**35, DecimalType(38, 2)),
]


class TestWiderColumns:
    @pytest.mark.case("I43")
    @pytest.mark.parametrize(("kind", "value", "wider"), WIDER, ids=str)
    def test_types_become_wider_under_full_alone(
        self, any_house: House, kind: IcebergType, value: object, wider: IcebergType
    ) -> None:
        any_house.lake.table("orders", Schema(NestedField(1, "v", kind, required=False)))
        with pytest.raises(BadRecordError):
            written(any_house, Evolution.ADD, {"v": value})
        assert columns(any_house) == {"v": str(kind)}
        written(any_house, Evolution.NONE, {"v": 1})
        written(any_house, Evolution.FULL, {"v": 2}, {"v": value}, {"v": None})
        assert columns(any_house) == {"v": str(wider)}
        stored = [row["v"] for row in any_house.rows()]
        assert len(stored) == 4
        wanted = float(value) if isinstance(wider, DoubleType) else Decimal(str(value))  # type: ignore[arg-type]  # a number
        assert wanted in stored

    @pytest.mark.case("I43")
    def test_required_becomes_optional_under_full_alone(self, any_house: House) -> None:
        inner = StructType(NestedField(11, "x", LongType(), required=True))
        schema = Schema(
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, "name", StringType(), required=True),
            NestedField(3, "point", inner, required=False),
            NestedField(4, "list", ListType(5, LongType(), element_required=True)),
            identifier_field_ids=[1],
        )
        any_house.lake.table("orders", schema)
        value = {"id": 1, "point": {}, "list": [None]}
        for evolve in (Evolution.NONE, Evolution.ADD):
            with pytest.raises(BadRecordError):
                written(any_house, evolve, value)
        written(any_house, Evolution.FULL, value)
        assert any_house.rows() == [{"id": 1, "name": None, "point": {"x": None}, "list": [None]}]
        assert columns(any_house)["id"] == "long!"
        assert any_house.table().schema().identifier_field_names() == {"id"}
        with pytest.raises(BadRecordError, match="required"):
            written(any_house, Evolution.FULL, {"name": "x"})

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (LongType(), 2**63),
            (LongType(), Decimal("1.5")),
            (IntegerType(), "text"),
            (DecimalType(4, 2), Decimal("1.234")),
            (DecimalType(4, 2), 10**37),
            (StringType(), 1),
        ],
        ids=str,
    )
    def test_a_value_that_no_wider_type_holds_is_a_bad_record(
        self, house: House, kind: IcebergType, value: object
    ) -> None:
        house.lake.table("orders", Schema(NestedField(1, "v", kind, required=False)))
        with pytest.raises(BadRecordError) as refused:
            written(house, Evolution.FULL, {"v": value})
        assert refused.value.path == "v"
        assert columns(house) == {"v": str(kind)}


@dataclass
class Interrupted:
    """A catalog in which something happens before a commit."""

    inner: SqlTables
    before: Callable[[], None]
    calls: int = 0

    def find(self, name: TableName) -> CurrentTable | None:
        return self.inner.find(name)

    def commit(self, name: TableName, current: CurrentTable, change: TableChange) -> None:
        self.calls += 1
        self.before()
        self.inner.commit(name, current, change)

    def create(self, name: TableName, table: NewTable) -> None:
        self.inner.create(name, table)


class TestConflicts:
    def changer(
        self, house: House, before: Callable[[], None]
    ) -> tuple[SchemaChanger, Interrupted]:
        config = house.config.catalog
        assert isinstance(config, SqlCatalog)
        catalog = Interrupted(SqlTables(catalog=house.catalog, config=config), before)
        changer = SchemaChanger(
            catalog=catalog,
            name=TableName(TARGET.namespace, TARGET.name),
            evolution=Evolution.ADD,
            metadata_columns=MetadataColumns.OFFSETS,
        )
        return changer, catalog

    @pytest.mark.case("I42")
    def test_the_second_of_two_takes_the_column_of_the_first(self, house: House) -> None:
        metadata = house.lake.table("orders", SCHEMA).metadata

        def first() -> None:
            written(house, Evolution.ADD, {"color": "red"})

        changer, catalog = self.changer(house, first)
        changed = changer.evolve(metadata, records_of({"color": "blue"}))
        assert changed is not None
        assert changed.schema() == house.table().schema()
        assert changed.last_column_id == 2
        assert catalog.calls == 1

    @pytest.mark.parametrize("error", [ConflictError, OutcomeUnknownError])
    def test_after_three_attempts_the_records_are_read_again(
        self, house: House, error: type[Exception]
    ) -> None:
        metadata = house.lake.table("orders", SCHEMA).metadata

        def fail() -> None:
            raise error

        changer, catalog = self.changer(house, fail)
        with pytest.raises(SinkError, match="3 attempts") as failed:
            changer.evolve(metadata, records_of({"color": "blue"}))
        assert failed.value.code is SinkCode.COMMIT_FAILED
        assert catalog.calls == 3

    def test_a_lost_answer_is_read_from_the_table(self, house: House) -> None:
        metadata = house.lake.table("orders", SCHEMA).metadata

        def land() -> None:
            other, _ = self.changer(house, lambda: None)
            other.evolve(metadata, records_of({"color": "blue"}))
            raise OutcomeUnknownError

        changer, catalog = self.changer(house, land)
        assert changer.evolve(metadata, records_of({"color": "blue"})) is not None
        assert catalog.calls == 1

    def test_the_last_attempt_counts(self, house: House) -> None:
        metadata = house.lake.table("orders", SCHEMA).metadata
        faults = [ConflictError(), ConflictError()]

        def fail() -> None:
            if faults:
                raise faults.pop()

        changer, catalog = self.changer(house, fail)
        assert changer.evolve(metadata, records_of({"color": "blue"})) is not None
        assert catalog.calls == 3

    @pytest.mark.parametrize("is_made_again", [True, False])
    def test_another_table_of_the_name_is_not_changed(
        self, house: House, is_made_again: bool
    ) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables(evolve=Evolution.ADD).writer(TARGET)
        writer.add(records_of({"id": 1}))
        house.lake.catalog.drop_table("books.orders")
        if is_made_again:
            house.lake.table("orders", SCHEMA)
        with pytest.raises(SinkError) as lost:
            writer.add(records_of({"id": 2, "color": "red"}))
        assert lost.value.code is SinkCode.TABLE_LOST

    def test_a_table_that_cannot_be_written_any_more_is_refused(self, house: House) -> None:
        house.lake.table("orders", SCHEMA)
        writer = house.tables(evolve=Evolution.ADD).writer(TARGET)
        writer.add(records_of({"id": 1}))
        house.set_property("write.format.default", "orc")
        with pytest.raises(SinkError) as refused:
            writer.add(records_of({"id": 2, "color": "red"}))
        assert refused.value.code is SinkCode.FILE_FORMAT_UNSUPPORTED
        assert path_at(house.table().metadata_location).exists()
