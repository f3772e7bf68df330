"""Which files of a folder or bucket are which table.

An entry of the root is a table: `orders.parquet` is the table orders, and so are all files below
the folder `orders/`. The files of a folder are those that a source with this path reads, whatever
their names: a comparison of the past and one of the present must not differ by a rule. Endings say
the format, and one format reads them all. A separate module because names decide alone: no file is
opened.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from datarecs_connectors.errors import NoFilesError, SnapshotLostError, SourceUnsupportedError
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
    """The table that a file says there is; the ending of a file in the root has one case."""
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
        SourceUnsupportedError: two entries have its name, its folder has two formats, or its name
            or that of a file cannot be in a document or a path.
    """
    if not name.strip(".") or "/" in name:
        raise NoFilesError(tree.source, name)
    if not name.isprintable():
        raise SourceUnsupportedError(
            tree.source, f"table {name!r}: its name has an invisible character; rename it"
        )
    entries = {entry: [file] for entry in _file_names(name) for file in _file(tree, entry)}
    folder = [] if name.startswith(_HIDDEN) else _folder(tree, name)
    if any(kind_of(file.path) for file in folder):
        entries[f"{name}/"] = folder
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
    """What a file of the root with the name of a table is called, in lower and in upper case."""
    packed = [
        f"{suffix}{packing}"
        for suffix, kind in SUFFIXES.items()
        if kind is not SourceKind.PARQUET
        for packing in PACKED
    ]
    endings = (*SUFFIXES, *packed)
    return [f"{name}{ending}" for lower in endings for ending in (lower, lower.upper())]


def _file(tree: SourceTree, entry: str) -> list[ListedFile]:
    """A file of the root, if there is one."""
    try:
        return [tree.listed(entry)]
    except SnapshotLostError:
        return []


def _folder(tree: SourceTree, name: str) -> list[ListedFile]:
    """What a source with the path of a folder of the root reads."""
    try:
        files = tree.listing(_SPECIAL.sub(r"[\g<0>]", name))
    except NoFilesError:
        return []
    return [file for file in files if "/" in file.path]


def _table(source: str, name: str, entry: str, files: list[ListedFile]) -> TableFiles:
    data = sorted(files, key=lambda file: file.path)
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
    return TableFiles(kind=next(iter(kinds)), entry=entry, files=tuple(data))


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
