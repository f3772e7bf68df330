"""Tables that cannot be captured: what the message says, and what to do."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_connectors import csv, json_columns, json_lines
from datarecs_connectors.capturing import parquet_capture
from datarecs_connectors.errors import SourceLimitError, SourceUnsupportedError

Folder = Any


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (csv, json_columns, json_lines, parquet_capture):
        monkeypatch.setattr(module, "MAX_COLUMNS", 1)


def _written(root: Path, name: str) -> None:
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"a": [1], "b": [2]}), root / name)
    else:
        text = "a,b\n1,2\n" if name.endswith(".csv") else '{"a": 1, "b": 2}\n'
        (root / name).write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("name", ["wide.parquet", "wide.csv", "wide.json"])
def test_a_table_with_too_many_columns_is_named_with_the_limit(folder: Folder, name: str) -> None:
    _written(folder.root, name)
    with pytest.raises(SourceLimitError) as caught:
        folder.table("wide")
    assert str(caught.value) == (
        f"source files: {name} has more than 1 columns, the most that a capture takes; divide it, "
        "or capture the other tables by their names"
    )


def test_other_limits_of_a_text_have_their_text(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _written(folder.root, "wide.json")
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 4)
    with pytest.raises(SourceLimitError, match=r"the line has more than 4 bytes$"):
        folder.table("wide")


def test_a_column_of_the_files_and_of_a_folder_is_refused_with_its_path(folder: Folder) -> None:
    (folder.root / "t/b=7").mkdir(parents=True)
    _written(folder.root / "t/b=7", "a.parquet")
    with pytest.raises(SourceUnsupportedError, match=r"t/b=7/a\.parquet: 'b' is a column of the "):
        folder.table("t")


def test_folders_without_any_value_are_a_column_of_nulls(folder: Folder) -> None:
    path = folder.root / "t/day=__HIVE_DEFAULT_PARTITION__/a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2]}), path)
    (captured,) = folder.capture("t")
    assert [(one.name, one.type, one.nulls) for one in captured.columns] == [
        ("n", "int", 0),
        ("day", "null", 2),
    ]
