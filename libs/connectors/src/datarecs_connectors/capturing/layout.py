"""Which files of a folder or bucket are which table.

An entry of the root is a table: `orders.parquet` is the table orders, and so are all files below
the folder `orders/`. Folders that begin with `.` or `_` are no tables, and writers' marks such as
`_SUCCESS` are no data, as for comparisons. A separate module because names decide alone: no file is
opened.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from datarecs_connectors.errors import NoFilesError, SourceUnsupportedError
from datarecs_connectors.source_trees import ListedFile, SourceTree
from datarecs_core.jobs.vocabulary import SourceKind

NAMESPACE = ("default",)
SUFFIXES = {
    ".parquet": SourceKind.PARQUET,
    ".pq": SourceKind.PARQUET,
    ".csv": SourceKind.CSV,
    ".tsv": SourceKind.CSV,
    ".json": SourceKind.JSON,
    ".jsonl": SourceKind.JSON,
    ".ndjson": SourceKind.JSON,
}
PACKED = (".gz", ".zst", ".zstd")
"""Endings of compressed text; the ending before is that of the text."""
_HIDDEN = (".", "_")
_SPECIAL = re.compile(r"[*?\[%:]")
"""Letters with a meaning in a path that somebody writes; a listed name has them as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of one table."""

    kind: SourceKind
    entry: str
    """Below the root: a file, or a folder with `/` at its end."""
    files: tuple[ListedFile, ...]
    """Sorted by path; at least one."""
    ignored: int
    """Files of the folder with the ending of no format."""


def kind_of(path: str) -> SourceKind | None:
    """The format that the name of a file says; None for no known one."""
    return SUFFIXES.get(_split(path)[1])


def root_tables(paths: Iterable[str]) -> tuple[list[str], int]:
    """The tables of the files of a root, sorted, and the number of entries that are none."""
    tables, entries = dict[str, str](), set[str]()
    for path in paths:
        entry = path.partition("/")[0]
        entries.add(entry)
        name = _table_name(path)
        if name is not None:
            tables[entry] = name
    return sorted(set(tables.values())), len(entries) - len(tables)


def _table_name(path: str) -> str | None:
    """The table that a file belongs to. The ending of a file in the root is in lower case."""
    entry, is_folder, _ = path.partition("/")
    name = entry if is_folder else _split(entry)[0]
    if kind_of(path) is None or not name.strip(".") or not _is_utf8(entry):
        return None
    return name if is_folder or entry in _file_names(name) else None


def _is_utf8(name: str) -> bool:
    """False for a name of a disk that no document can hold."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def files_of(tree: SourceTree, name: str) -> TableFiles:
    """The files of a table.

    Raises:
        NoFilesError: there is no such table.
        SourceUnsupportedError: two entries have its name, its folder has two formats, or the name
            of a file is not UTF-8.
    """
    if not name.strip(".") or "/" in name:
        raise NoFilesError(tree.source, name)
    entries = {}
    folders = [] if name.startswith(_HIDDEN) else [name]
    for entry in (*folders, *_file_names(name)):
        files = _listing(tree, entry, is_folder=entry == name)
        if any(kind_of(file.path) for file in files):
            entries[f"{name}/" if entry == name else entry] = files
    if not entries:
        raise NoFilesError(tree.source, name)
    if len(entries) > 1:
        raise SourceUnsupportedError(
            tree.source,
            f"table {name!r}: {' and '.join(sorted(entries))} have the same name; rename one",
        )
    entry, files = entries.popitem()
    return _table(tree.source, name, entry, files)


def _file_names(name: str) -> list[str]:
    packed = [
        f"{name}{suffix}{packing}"
        for suffix, kind in SUFFIXES.items()
        if kind is not SourceKind.PARQUET
        for packing in PACKED
    ]
    return [*(f"{name}{suffix}" for suffix in SUFFIXES), *packed]


def _listing(tree: SourceTree, entry: str, *, is_folder: bool) -> list[ListedFile]:
    """The files below a folder, or one file."""
    path = _SPECIAL.sub(r"[\g<0>]", entry)
    try:
        files = tree.listing(path)
    except NoFilesError:
        return []
    return [file for file in files if ("/" in file.path) is is_folder]


def _table(source: str, name: str, entry: str, files: list[ListedFile]) -> TableFiles:
    data = sorted((file for file in files if kind_of(file.path)), key=lambda file: file.path)
    unreadable = next((file.path for file in data if not _is_utf8(file.path)), None)
    if unreadable is not None:
        raise SourceUnsupportedError(
            source,
            f"table {name!r}: the name of the file {os.fsencode(unreadable)!r} is not UTF-8; "
            "rename it",
        )
    kinds = {kind: file.path for file in data if (kind := kind_of(file.path)) is not None}
    if len(kinds) > 1:
        examples = " and ".join(f"{path} is {kind}" for kind, path in sorted(kinds.items()))
        raise SourceUnsupportedError(
            source,
            f"table {name!r} has files of several formats: {examples}; move the files of each "
            "format into a folder of its own",
        )
    return TableFiles(
        kind=next(iter(kinds)), entry=entry, files=tuple(data), ignored=len(files) - len(data)
    )


def _split(path: str) -> tuple[str, str]:
    """The name without its endings, and the ending of the format in lower case."""
    name = path.rpartition("/")[2]
    packing = next((one for one in PACKED if name.lower().endswith(one)), "")
    bare = name.removesuffix(name[len(name) - len(packing) :]) if packing else name
    stem, dot, suffix = bare.rpartition(".")
    ending = f"{dot}{suffix}".lower()
    if packing and SUFFIXES.get(ending) is SourceKind.PARQUET:
        return name, ""
    return (stem, ending) if stem else (bare, "")
