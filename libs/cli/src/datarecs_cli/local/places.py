"""The place of a file of a comparison: its base folder, its kind, and a name for the source.

A proof has paths relative to a folder, never absolute ones, while users may type any path.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from datarecs_cli.invocation import UsageFault
from datarecs_cli.parts import Extra, require
from datarecs_connectors.path_patterns import is_aside
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.object_urls import is_object_url, object_url_fault
from datarecs_runtime.clock import SystemClock

KINDS = {
    ".parquet": SourceKind.PARQUET,
    ".pq": SourceKind.PARQUET,
    ".csv": SourceKind.CSV,
    ".tsv": SourceKind.CSV,
    ".json": SourceKind.JSON,
    ".jsonl": SourceKind.JSON,
    ".ndjson": SourceKind.JSON,
}
_TABS = ".tsv"
PACKED = (".gz", ".zst", ".zstd")
"""Endings of compressed text; the ending before is that of the text."""
_WILD = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_NO_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 24
"""Longest name of a source, so that two of them fit into the name of a job."""


def located(path: str, base: Path) -> tuple[Path, str]:
    """The base folder of a path, and the path relative to it.

    Relative paths do not change. `.`, an absolute path, or one that leaves `base` is cut before
    its first part that is a wildcard or a partition folder such as `day=2026-01-31`. An address of
    objects does not change.
    """
    if is_object_url(path):
        return base, path
    clean = os.path.normpath(path)
    if clean != os.curdir and not clean.startswith(("/", "..")):
        return base, clean
    parts = Path(os.path.normpath(base / clean)).parts
    fixed = next(
        (at for at, part in enumerate(parts[:-1]) if _WILD.search(part) or "=" in part),
        len(parts) - 1,
    )
    return Path(*parts[:fixed]), "/".join(parts[fixed:])


def located_together(paths: Sequence[str], base: Path) -> tuple[Path, list[str]]:
    """One base folder for several paths, and the paths relative to it."""
    places = [located(path, base) for path in paths]
    roots = {root for root, _ in places}
    if len(roots) == 1:
        return roots.pop(), [path for _, path in places]
    root = Path(os.path.commonpath([one.absolute() for one in roots]))
    return root, [
        path if is_object_url(path) else (one.absolute() / path).relative_to(root).as_posix()
        for one, path in places
    ]


def kind_of(path: str) -> SourceKind:
    """The kind by the name's ending; for a folder by its files, on this machine or in a store.

    Raises:
        UsageFault: no such file, files of an unsupported kind, or an unsupported address.
        DatarecsError: the folder of a store cannot be listed.
    """
    _check_scheme(path)
    suffix = _suffix(path)
    if suffix in KINDS:
        return KINDS[suffix]
    known = ", ".join(KINDS)
    if not suffix and _WILD.search(path):
        raise UsageFault(
            f"{path}: the pattern does not end in the ending of its files; add one of {known}, or "
            "name the folder, which reads all its files"
        )
    raise UsageFault(
        f"{path}: files {f'ending in {suffix}' if suffix else 'without an ending'} cannot be"
        f" compared; rename, unpack or convert it to one of {known} (text also as .gz or .zst), or"
        " declare its `kind` in a job in .yaml"
    )


def _check_scheme(path: str) -> None:
    """Refuse other addresses, without their text: it may contain a password."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return
    if not is_object_url(path):
        raise UsageFault(
            f"{scheme[0]} addresses cannot be compared; known are postgresql://, s3://, gs:// and "
            "az://, and paths of files"
        )
    if fault := object_url_fault(path):
        raise UsageFault(f"the address of an object: {fault}")


def is_tab_separated(path: str) -> bool:
    return _suffix(path) == _TABS


def _suffix(path: str) -> str:
    if is_object_url(path):
        ending = _ending(Path(path))
        return ending if ending in KINDS or _WILD.search(path) else _of_objects(path)
    if _WILD.search(path):
        return _ending(Path(path))
    place = Path(path)
    if not place.exists():
        raise UsageFault(f"{path}: no such file; check the path, it is relative to {Path.cwd()}")
    if not place.is_dir():
        return _ending(place)
    files = (one.relative_to(place) for one in sorted(place.rglob("*")))
    return _of_files(path, [one for one in files if not _is_beside_data(one)])


def _is_beside_data(file: Path) -> bool:
    """Whether the file is in a folder that readers ignore, such as `_delta_log`."""
    return any(map(is_aside, file.parts[:-1])) or file.name.startswith(".")


def _of_objects(path: str) -> str:
    """The ending of an object, or of those in a folder, which only the store knows."""
    require(path, Extra.STORES)
    from datarecs_connectors.object_stores.opening import open_ambient
    from datarecs_connectors.object_stores.tree import ObjectTree

    root, bucket = open_ambient(path, path)
    tree = ObjectTree(bucket=bucket, root=root, now=SystemClock().now)
    try:
        return _of_files(path, [Path(name) for name in tree.find(path)])
    finally:
        tree.close()


def _of_files(path: str, files: Sequence[Path]) -> str:
    """The ending of the files that can be compared.

    Raises:
        UsageFault: there are none, or files of several kinds.
    """
    endings = [_ending(one) for one in files if _ending(one) in KINDS]
    if not endings:
        raise UsageFault(f"{path}: the folder has no file ending in {', '.join(KINDS)}")
    kinds = {(KINDS[ending], ending == _TABS) for ending in endings}
    if len(kinds) > 1:
        counts = Counter(endings)
        listed = ", ".join(f"{counts[ending]:,} {ending}" for ending in sorted(counts))
        raise UsageFault(
            f"{path}: the folder has files of several kinds: {listed}; choose one with a pattern, "
            f"such as '{path.rstrip('/')}/**/*{endings[0]}'"
        )
    return endings[0]


def _ending(path: Path) -> str:
    """The ending, without that of a compression if the text is compressed."""
    suffix = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    is_text = KINDS.get(inner) in {SourceKind.CSV, SourceKind.JSON}
    return inner if suffix in PACKED and is_text else suffix


def names_of(paths: Sequence[str]) -> list[str]:
    """A source name per path: the file's name, with the folder or a number if it repeats."""
    short = [_slug(_stem_of(path)) for path in paths]
    if len(set(short)) == len(short):
        return short
    long = [_slug(f"{Path(path).resolve().parent.name} {_stem_of(path)}") for path in paths]
    if len(set(long)) == len(long):
        return long
    return [f"{name}-{at}" for at, name in enumerate(short, start=1)]


def _stem_of(path: str) -> str:
    """`exports` of `exports/*.parquet`: the part before the first wildcard."""
    parts = [part for part in Path(path).parts if not _WILD.search(part)]
    return Path(parts[-1]).stem if parts else ""


def _slug(text: str) -> str:
    name = _NO_NAME.sub("-", text.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return name or "source"
