"""What the sink uses of pyiceberg, so that another release that changes it is noticed here."""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import ParquetFormatWriter
from pyiceberg.manifest import write_manifest, write_manifest_list
from pyiceberg.schema import Schema
from pyiceberg.table.locations import SimpleLocationProvider
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import SnapshotSummaryCollector, update_snapshot_summaries
from pyiceberg.table.update import update_table_metadata
from pyiceberg.types import LongType, NestedField

from datarecs_connectors import sinking
from datarecs_connectors.sinking import committing
from datarecs_connectors.sinking.catalog_changes import ConflictError
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_connectors.sinking.watermarks import watermark_of

from .sink_house import House, records_of

FOLDER = Path(next(iter(sinking.__path__)))
SIGNATURES: dict[Callable[..., object], str] = {
    write_manifest: "format_version spec schema output_file snapshot_id avro_compression",
    write_manifest_list: (
        "format_version output_file snapshot_id parent_snapshot_id sequence_number avro_compression"
    ),
    update_table_metadata: "base_metadata updates enforce_validation metadata_location",
    update_snapshot_summaries: "summary previous_summary",
    new_table_metadata: "schema partition_spec sort_order location properties table_uuid",
    ParquetFormatWriter.__init__: "self output_file file_schema properties",
    ParquetFormatWriter.write: "self table",
    ParquetFormatWriter.close: "self",
    SnapshotSummaryCollector.add_file: "self data_file schema partition_spec",
    SimpleLocationProvider.new_data_location: "self data_file_name partition_key",
    SimpleLocationProvider.new_metadata_location: "self metadata_file_name",
}


@pytest.mark.case("I76")
def test_the_functions_have_the_parameters_that_the_sink_passes() -> None:
    for function, wanted in SIGNATURES.items():
        assert list(inspect.signature(function).parameters) == wanted.split(), function


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
@pytest.mark.case("I76")
def test_no_private_name_of_pyiceberg_is_used(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyiceberg")
        for name in ((node.module or "").split(".") + [alias.name for alias in node.names])
    ]
    private = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.endswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    ]
    assert [name for name in imported if name.startswith("_")] == []
    text = path.read_text(encoding="utf-8")
    assert [
        name for name in private if f"def {name}" not in text and f"    {name}:" not in text
    ] == []


@pytest.mark.case("I76")
def test_the_guard_runs_before_every_attempt(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "_LONGEST_WAIT_MS", 1)
    house.lake.table("orders", Schema(NestedField(1, "id", LongType())))
    request = house.request(*house.write(records_of({"id": 1})))
    guard, commit = watermark_of, SqlTables.commit
    guarded: list[int] = []
    attempts: list[int] = []

    def counted(*arguments: object) -> object:
        guarded.append(1)
        return guard(*arguments)  # type: ignore[arg-type]  # as they came

    def refused(self: SqlTables, *arguments: object) -> None:
        attempts.append(len(guarded))
        if len(attempts) < 3:
            raise ConflictError
        commit(self, *arguments)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(committing, "watermark_of", counted)
    monkeypatch.setattr(SqlTables, "commit", refused)
    assert house.commit(request) is not None
    assert attempts == [1, 2, 3]
