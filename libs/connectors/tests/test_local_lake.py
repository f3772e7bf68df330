"""The catalog of the demo: what another program counts and deletes in it."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from datarecs_connectors.iceberg.local_lake import LocalLake


def test_one_row_is_deleted_by_its_place(tmp_path: Path) -> None:
    lake = LocalLake(folder=tmp_path / "lake", name="lake")
    lake.create()
    lake.create()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake.file}", warehouse=tmp_path.as_uri())
    rows = pa.table({"part": [0, 0, 1], "offset": [1, 2, 1]})
    catalog.create_namespace("demo")
    catalog.create_table("demo.events", rows.schema).append(rows)
    lake.delete_row("demo.events", {"part": 0, "offset": 1})
    left = catalog.load_table("demo.events").scan().to_arrow().to_pylist()
    catalog.close()
    assert left == [{"part": 0, "offset": 2}, {"part": 1, "offset": 1}]
    assert lake.count("demo.events") == len(left)


def test_an_unknown_table_is_no_empty_table(tmp_path: Path) -> None:
    lake = LocalLake(folder=tmp_path, name="lake")
    lake.create()
    with pytest.raises(NoSuchTableError, match=r"demo\.events"):
        lake.count("demo.events")
