"""A captured table has the files that a source with its path reads, whatever their names are."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_connectors.capturing.layout import files_of, kind_of, root_tables
from datarecs_connectors.errors import NoFilesError, SourceUnsupportedError
from datarecs_connectors.file_tree import FileTree
from datarecs_connectors.source_trees import SourceTree
from datarecs_core.captures.request import CaptureScope
from datarecs_testing.tables import NOON

Folder = Any
ODD = (
    *("part-0001", "B.PARQUET", "c.Parquet", "d.pq", ".hidden", ".parquet", "x.parquet.gz"),
    *("_SUCCESS", "_metadata", "_part.parquet", ".a.parquet.crc", "README.md", "no.ending."),
    *("a b.parquet", "ü.parquet", "[x].parquet", "50%41.parquet", "a:b", "what?", "all*", "-"),
    *("day=1/a.parquet", "day=1/part-0001", "_temporary/a.parquet", ".git/a.parquet"),
    *("deep/.er/a.parquet", "deep/er/e", "e.csv", "f.JSONL.GZ"),
)
LINES = {"csv": "n\n1\n", "json": '{"n": 1}\n'}


def write(path: Path, rows: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        pq.write_table(pa.table({"n": list(range(rows))}), stream)
    return path


def tree_of(root: Path) -> SourceTree:
    return FileTree(source="files", root=root, now=lambda: NOON)


def read_by_a_source(tree: SourceTree, path: str) -> list[str]:
    held = tree.pin(path)
    held.close()
    return sorted(file.path for file in held.pin.files)


@settings(max_examples=60, deadline=None)
@given(names=st.sets(st.sampled_from(ODD), min_size=1, max_size=6))
def test_a_table_has_the_files_of_a_source_or_is_none(names: set[str]) -> None:
    with TemporaryDirectory() as folder:
        for name in names:
            write(Path(folder) / "t" / name)
        tree = tree_of(Path(folder))
        tables, left_out = root_tables(tree.find("*")) if _reads(tree) else ([], 0)
        try:
            captured = [file.path for file in files_of(tree, "t").files]
        except NoFilesError:
            assert not any(kind_of(name) for name in _reads(tree))
            assert (tables, left_out) == ([], 1 if _reads(tree) else 0)
            return
        except SourceUnsupportedError as refused:
            assert len({kind_of(name) for name in _reads(tree)} - {None}) > 1
            assert "'t' has files of several formats" in str(refused)  # noqa: PT017  the property has two right ends
            return
        assert (tables, left_out) == (["t"], 0)
        for form in ("t", "t/", "./t", "t//", "t/*"):
            assert captured == read_by_a_source(tree, form), form


def _reads(tree: SourceTree) -> list[str]:
    try:
        return tree.find("t")
    except NoFilesError:
        return []


def test_a_file_without_an_ending_counts_as_the_others_of_its_folder(folder: Folder) -> None:
    for rows, name in enumerate(("a.parquet", "B.PARQUET", "part-0001"), 2):
        write(folder.root / "y" / name, rows)
    files = folder.capture("y")
    assert {file.path: file.rows for file in files} == {
        "y/a.parquet": 2,
        "y/B.PARQUET": 3,
        "y/part-0001": 4,
    }
    (folder.root / "z").mkdir()
    (folder.root / "z/a.csv").write_text("n\n1\n")
    (folder.root / "z/part-0001.gz").write_bytes(gzip.compress(b"n\n2\n3\n"))
    assert [file.rows for file in folder.capture("z")] == [1, 2]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_a_file_that_is_of_no_format_fails_its_table_with_the_fix(
    folder: Folder, kind: str
) -> None:
    target = write(folder.root / f"t/a.{kind}")
    if kind in LINES:
        target.write_text(LINES[kind])
    (folder.root / "t/README.md").write_text("These are the\nfiles, of May\n")
    write(folder.root / "good.parquet")
    with pytest.raises(SourceUnsupportedError, match=r"t/README\.md has the ending of") as failed:
        folder.capture("t")
    assert f"read as {kind}, as by a source" in str(failed.value)
    assert "Move it out of the folder" in str(failed.value)
    (folder.root / "t/_docs").mkdir()
    (folder.root / "t/README.md").rename(folder.root / "t/_docs/README.md")
    assert [file.rows for file in folder.capture("t")] == [1]
    assert [file.rows for file in folder.capture("good")] == [1]


def test_endings_in_upper_case_are_endings_in_a_root_too(folder: Folder) -> None:
    write(folder.root / "UPPER.PARQUET", 3)
    (folder.root / "rates.CSV.GZ").write_bytes(gzip.compress(b"n\n1\n"))
    write(folder.root / "Mixed.Parquet")
    objects = folder.open().objects(CaptureScope())
    assert ([table.name for table in objects.tables], objects.ignored) == (["UPPER", "rates"], 1)
    assert [folder.capture(name)[0].rows for name in ("UPPER", "rates")] == [3, 1]
    write(folder.root / "UPPER.parquet")
    with pytest.raises(SourceUnsupportedError, match=r"UPPER\.PARQUET and UPPER\.parquet"):
        folder.table("UPPER")


def test_a_table_with_an_invisible_character_says_its_name_as_it_is(folder: Folder) -> None:
    write(folder.root / "esc\x1b[31m/a.parquet")
    (name,) = folder.tables()
    with pytest.raises(SourceUnsupportedError, match="invisible character; rename it") as failed:
        folder.table(name)
    assert r"'esc\x1b[31m'" in str(failed.value)
