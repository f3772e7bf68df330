"""Changes of a table between captures: each incremental capture has to equal a full one.

One source is captured into two catalogues, always incrementally into the one and in full into the
other. Changes are small numbers, so that a failed sequence can be read and repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)

from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.ports.capturing import Assignment
from datarecs_connectors.errors import SourceError
from datarecs_core.captures.items import RetryClass, WorkState
from datarecs_core.captures.outcomes import Outcome, WorkFailed
from datarecs_core.captures.request import CapturePolicy, ColumnChoice, Output
from datarecs_core.captures.targets import file_target
from datarecs_core.catalog.publication import Captured
from datarecs_core.catalog.records import FileStats, IndexArtifact, TargetStats
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.captured_files import CAPTURED_AT
from datarecs_testing.lake import Lake, data_files, delete_positions

TABLE = "entries"
_STATS = (Output.TABLE_STATS, Output.COLUMN_STATS, Output.FILE_STATS)
POLICIES = (
    CapturePolicy(outputs=_STATS, column_choice=ColumnChoice.ALL),
    CapturePolicy(outputs=_STATS, column_choice=ColumnChoice.FIRST_N, first_columns=2),
    CapturePolicy(outputs=(*_STATS, Output.PARQUET_PAGE_INDEX), column_choice=ColumnChoice.ALL),
    CapturePolicy(outputs=(Output.TABLE_STATS,)),
)
Change = tuple[int, int, int]
"""How, where, and the policy of the capture after it; each number is taken modulo its choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What readers of a table see, without ids and times of its capture."""

    captured: Captured
    targets: Mapping[str, TargetStats]
    files: Sequence[FileStats]
    indexes: Sequence[IndexArtifact | None]


class ReportingHouse(CaptureHouse):
    """A house that ends work with the error of a source, as the child of a worker does."""

    def outcome_of(self, assignment: Assignment) -> Outcome:
        try:
            return super().outcome_of(assignment)
        except SourceError as error:
            return WorkFailed(code=error.code.name, message=str(error), retry=RetryClass.TERMINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoCaptures:
    """The same source in two catalogues."""

    incremental: ReportingHouse
    full: ReportingHouse

    def check(self, policy: CapturePolicy) -> None:
        """Capture into both, and compare what they have field by field."""
        part = self.incremental.capture(policy=policy)
        whole = self.full.capture(policy=policy, is_full_rescan=True)
        assert part.state is whole.state, (part.message, whole.message)
        if whole.state is not WorkState.SUCCEEDED:
            assert self.incremental.failure(part.id) == self.full.failure(whole.id)
            return
        expected, published = _publication(self.full), _publication(self.incremental)
        if published.captured == expected.captured:  # an earlier one may have had more
            assert published == expected


def _publication(house: CaptureHouse) -> Publication:
    table = house.table(TABLE)
    snapshot = house.current(table)
    assert snapshot is not None
    active = house.active(table, snapshot)
    assert active is not None
    captured = Generations(house.account).manifest(active).captured
    files = list(Generations(house.account).files(active))
    is_indexed = Output.PARQUET_PAGE_INDEX in captured.outputs
    return Publication(
        captured=captured,
        targets={
            target_id: replace(one, table_id=UUID(int=0), captured_at=CAPTURED_AT)
            for target_id, one in house.targets(table, snapshot).items()
        },
        files=[replace(one, table_id=UUID(int=0), captured_at=CAPTURED_AT) for one in files],
        indexes=[
            _index(house, table.id, snapshot.snapshot_id, one.path) for one in files if is_indexed
        ],
    )


def _index(
    house: CaptureHouse, table_id: UUID, snapshot_id: int, path: str
) -> IndexArtifact | None:
    index = Indexes(house.account).get(table_id, snapshot_id, file_target(path))
    return None if index is None else replace(index, table_id=UUID(int=0), blob_key=None)


_CSV = (
    "v,w\n10,1\n9,2\n",
    "v,w\nx,1\n",
    "w,v\n3,1.5\n",
    "v,w\n2026-01-31,4\n",
    "v,w\n2026-01-31T10:00:00,5\n",
    "v,w\n,6\n",
    "v,w,z\n1,2,3\n",
)
_JSON = (
    '{"v": 10, "w": 1}\n{"v": 9, "w": 2}\n',
    '{"v": {"a": 1}, "w": 1}\n',
    '{"v": "x", "w": 1}\n',
    '{"w": 3}\n',
    '{"w": 1, "v": 1.5, "z": true}\n',
)
_PARQUET = (
    pa.table({"v": [10, 9], "w": [1, 2]}),
    pa.table({"w": [5, None], "v": [7, 7]}),
    pa.table({"v": pa.nulls(2), "w": [3, 4]}),
    pa.table({"v": ["x", "y"], "w": [1, 2]}),
    pa.table({"v": [1], "w": [2], "z": [[3]]}),
)
_FOLDERS = ("10", "9", "x", "2026-01-31", "1.5", "__HIVE_DEFAULT_PARTITION__")
FORMATS = ("csv", "json", "parquet", "hive")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFolder:
    """A table of at most four files, each with columns and values of any kind."""

    root: Path
    format: str
    """One of FORMATS."""

    def change(self, how: int, where: int) -> None:
        """Write a file, or remove it if it is not the only one."""
        folder = self.root / TABLE
        name = f"{where % 4}.{'parquet' if self.format == 'hive' else self.format}"
        present = list(folder.rglob("*.*"))
        kinds = {"csv": _CSV, "json": _JSON, "parquet": _PARQUET, "hive": _FOLDERS}[self.format]
        kind = how % (len(kinds) + 1)
        if kind == len(kinds) and {one.name for one in present} <= {name}:
            return
        for one in present:
            if one.name == name:
                one.unlink()
        if kind < len(kinds):
            self._write(folder, name, kinds[kind])

    def _write(self, folder: Path, name: str, content: pa.Table | str) -> None:
        file = folder / name
        if self.format == "hive":
            file = folder / f"v={content}" / name
            content = pa.table({"w": [1, 2, 3]})
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            file.write_text(content, encoding="utf-8")
        else:
            pq.write_table(content, file)


_SCHEMA = Schema(
    NestedField(1, "net", LongType(), required=False),
    NestedField(2, "gross", LongType(), required=False),
    NestedField(3, "rate", FloatType(), required=False),
    NestedField(4, "amount", DecimalType(10, 2), required=False),
    NestedField(5, "number", IntegerType(), required=False),
    NestedField(6, "x", LongType(), required=False),
)
_WIDER: Mapping[IcebergType, PrimitiveType] = {
    FloatType(): DoubleType(),
    DecimalType(10, 2): DecimalType(12, 2),
    IntegerType(): LongType(),
}


class ChangedLake:
    """A table of Iceberg with changes of its columns and rows."""

    def __init__(self, lake: Lake) -> None:
        self._table = lake.table(TABLE, _SCHEMA)
        self._folder, self._rows = lake.folder, 0
        self._append()

    def change(self, how: int, where: int) -> None:
        """One change of columns or of rows, and an append, so that there is a new snapshot."""
        changes = (
            self._append,
            lambda: self._swap("net", "gross"),
            lambda: self._add_again("x", (LongType(), StringType())[where % 2]),
            lambda: self._widen(
                ("rate", "number", self._table.schema().find_column_name(4) or "")[where % 3]
            ),
            self._rename_amount,
            lambda: self._delete(where),
            self._add_file_without_ids,
        )
        changes[how % len(changes)]()
        self._append()

    def _append(self) -> None:
        self._table.refresh()
        self._table.append(self._some_rows())

    def _some_rows(self) -> pa.Table:
        schema = self._table.schema().as_arrow()
        self._rows += 3
        columns = [_values(self._rows + 1000 * at, field.type) for at, field in enumerate(schema)]
        return pa.table(columns, schema=schema)

    def _swap(self, one: str, other: str) -> None:
        for old, new in ((one, "between"), (other, one), ("between", other)):
            self._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        with self._table.update_schema() as update:
            update.rename_column(old, new)

    def _rename_amount(self) -> None:
        names = self._table.schema().column_names
        self._rename(*(("amount", "total") if "amount" in names else ("total", "amount")))

    def _add_again(self, name: str, kind: PrimitiveType) -> None:
        with self._table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(name)
        with self._table.update_schema() as update:
            update.add_column(name, kind)

    def _widen(self, name: str) -> None:
        kind = _WIDER.get(self._table.schema().find_type(name))
        if kind is not None:
            with self._table.update_schema() as update:
                update.update_column(name, kind)

    def _delete(self, where: int) -> None:
        files = data_files(self._table)
        file = files[where % len(files)]
        delete_positions(self._table, {file.file_path: [0]}, like=file)

    def _add_file_without_ids(self) -> None:
        """Its columns are those of the name mapping of the table."""
        rows = self._some_rows()
        plain = pa.schema([pa.field(one.name, one.type) for one in rows.schema])
        file = self._folder / f"added-{self._rows}.parquet"
        pq.write_table(pa.table(rows.columns, schema=plain), file)
        self._table.add_files([f"file://{file}"])


def _values(first: int, kind: pa.DataType) -> pa.Array:
    numbers = [first, None, first - 100]
    if pa.types.is_decimal(kind):
        return pa.array([None if one is None else Decimal(one) for one in numbers], kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return pa.array([str(one) if is_text and one is not None else one for one in numbers], kind)
