"""Checks that the files of a source still have the size and the SHA-256 that a run pinned.

Unlike `evidence`, this module opens the data itself, and only if the user named its place.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.proof.sealed import SealedRun
from datarecs_core.comparison.proof.verification import Finding

_CHUNK_BYTES = 1024**2


def pinned_findings(run: SealedRun, source: str, place: Path) -> Iterator[Finding]:
    """The differences between a source's pin and the files below a place.

    Args:
        run: the run with the pins.
        source: its name.
        place: the folder of the pinned paths, or the file if the pin has only one.

    Raises:
        UsageFault: no such source, or its pin lists no files.
    """
    listed = _files(run, source)
    for file in listed:
        path = place if place.is_file() and len(listed) == 1 else place / str(file.get("path"))
        reason = _difference(path, file)
        if reason is not None:
            yield Finding(check="source", source=source, message=f"{path}: {reason}")


def unhashed(run: SealedRun, source: str) -> int:
    """Number of pinned files without SHA-256; only their size can be checked."""
    return sum(file.get("sha256") is None for file in _files(run, source))


def _files(run: SealedRun, source: str) -> list[Mapping[str, object]]:
    if source not in run.sources:
        raise UsageFault(f"--source {source}: unknown; the run read {', '.join(run.sources)}")
    listed = run.pins[run.sources.index(source)].get("files")
    if not isinstance(listed, list):
        raise UsageFault(f"--source {source}: its pin lists no files")
    return [file for file in listed if isinstance(file, Mapping)]


def _difference(path: Path, pinned: Mapping[str, object]) -> str | None:
    if not path.is_file():
        return "the file is missing"
    size = path.stat().st_size
    if str(size) != str(pinned.get("size_bytes")):
        return f"it has {size} bytes, the run read {pinned.get('size_bytes')}"
    said = pinned.get("sha256")
    if said is not None and _sha256(path) != said:
        return "its content has changed since the run"
    return None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
