"""Files that a path names: the rule of folders and object stores, against `Path.glob`."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_connectors import file_search
from datarecs_connectors.catalogued_files import is_at
from datarecs_connectors.errors import (
    ConnectionFailedError,
    NoFilesError,
    PathRefusedError,
    SourceLimitError,
)
from datarecs_connectors.file_tree import FileTree
from datarecs_testing.builders import NOON

NAMES = st.sampled_from(["a", "b", "ab", "x.csv"])
FILES = st.sets(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)
PARTS = st.sampled_from(["a", "b", "x.csv", "*", "**", "a*", "?", "[ab]*", "*.csv"])
PATHS = st.lists(PARTS, min_size=1, max_size=5).map("/".join)


def a_tree(root: Path, *, any_path: bool = False) -> FileTree:
    return FileTree(source="exports", root=root, now=lambda: NOON, any_path=any_path)


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("id\n1\n")


def without_folders(names: set[str]) -> set[str]:
    """Without names that others need as a folder."""
    return {name for name in names if not any(other.startswith(f"{name}/") for other in names)}


def by_glob(root: Path, path: str) -> Iterator[str]:
    """The files of a path and those below its folders."""
    for place in root.glob(path):
        files = [place] if place.is_file() else place.rglob("*")
        yield from (file.relative_to(root).as_posix() for file in files if file.is_file())


@given(files=FILES.map(without_folders), path=PATHS)
def test_a_path_matches_the_files_that_python_matches_each_once(files: set[str], path: str) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        write(root, *files)
        expected = sorted(set(by_glob(root, path)))
        assert sorted(a_tree(root).find_names(path)) == expected
        assert sorted(name for name in files if is_at(path, name)) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("**/*.csv", ["a.csv", "d/_b.csv", "d/e/c.csv", "d/t.csv/part"]),
        ("d/**/*.csv", ["d/_b.csv", "d/e/c.csv", "d/t.csv/part"]),
        ("d/**", ["d/_b.csv", "d/e/c.csv", "d/t.csv/part"]),
        ("**/e/**", ["d/e/c.csv"]),
        ("**/c.csv", ["d/e/c.csv"]),
        ("**/_log/*", ["d/_log/f.csv"]),
        ("**/_SUCCESS", ["d/_SUCCESS"]),
        ("**/.hidden/**/g.csv", [".hidden/h/g.csv"]),
        ("**/*.json", None),
    ],
)
def test_any_number_of_folders_leaves_out_hidden_ones_and_marks_unless_they_are_named(
    tmp_path: Path, path: str, expected: list[str] | None
) -> None:
    read = ["a.csv", "d/_b.csv", "d/e/c.csv", "d/t.csv/part"]
    ignored = ["d/_log/f.csv", "d/_SUCCESS", ".hidden/h/g.csv"]
    write(tmp_path, *read, *ignored)
    assert sorted(name for name in (*read, *ignored) if is_at(path, name)) == (expected or [])
    if expected is None:
        with pytest.raises(NoFilesError):
            a_tree(tmp_path).find(path)
    else:
        assert a_tree(tmp_path).find(path) == expected


def test_an_absolute_path_of_a_workstation_searches_folders(tmp_path: Path) -> None:
    write(tmp_path, "a.csv", "d/e/b.csv")
    files = a_tree(tmp_path, any_path=True).find(f"{tmp_path}/**/*.csv")
    assert files == [f"{tmp_path}/a.csv", f"{tmp_path}/d/e/b.csv"]


@pytest.mark.parametrize("path", ["a**/b.csv", "**.csv", "d/a**b", "***/b.csv", "d/[**]"])
def test_any_folders_inside_a_name_are_refused(tmp_path: Path, path: str) -> None:
    write(tmp_path, "a/b.csv")
    with pytest.raises(PathRefusedError, match=r"exports/\*\*/\*\.csv"):
        a_tree(tmp_path).find(path)


def test_a_search_of_too_many_entries_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "d/a", "d/b", "e.csv")
    monkeypatch.setattr(file_search, "MAX_ENTRIES", 4)
    assert a_tree(tmp_path).find("**/*.csv") == ["e.csv"]
    write(tmp_path, "d/c")
    with pytest.raises(SourceLimitError, match="more than 4 files and folders"):
        a_tree(tmp_path).find("**/*.csv")
    assert a_tree(tmp_path).find("e.csv") == ["e.csv"]


def test_folders_that_lead_in_a_circle_end_the_search(tmp_path: Path) -> None:
    write(tmp_path, "d/a.csv")
    (tmp_path / "d/again").symlink_to(tmp_path)
    assert a_tree(tmp_path).find("**/*.csv") == ["d/a.csv"]
    with pytest.raises(SourceLimitError, match="more than 64 deep below 'd'; a link may lead back"):
        a_tree(tmp_path, any_path=True).find("**/*.csv")


def test_a_missing_folder_of_a_workstation_is_named(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "data", any_path=True)
    with pytest.raises(ConnectionFailedError, match=f"the folder {tree.root} does not exist"):
        tree.check_root()
    with pytest.raises(NoFilesError, match=f"no file matches 'a.csv' in folder {tree.root};"):
        tree.find("a.csv")
    tree.root.mkdir()
    assert tree.check_root() == "the folder can be read"
    with pytest.raises(NoFilesError, match=f"no file matches '{tree.root}/a.csv';"):
        tree.find(f"{tree.root}/a.csv")
