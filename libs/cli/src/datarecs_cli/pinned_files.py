"""Are the files of a source still those that a run pinned: there, of that size, of that SHA-256.

Apart from `evidence` because here the data itself is opened, and only when its place was named.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.proof.sealed import SealedRun
from datarecs_core.comparison.proof.verification import Finding

_CHUNK_BYTES = 1024**2


def pinned_findings(run: SealedRun, source: str, place: Path) -> Iterator[Finding]:
    """What differs between a source's pin and the files below a place.

    Args:
        run: whose proof holds the pins.
        source: its name.
        place: the folder where the pinned paths begin, or the file itself when there is one.

    Raises:
        UsageFault: no such source, or one whose pin lists no files.
    """
    listed = _files(run, source)
    for file in listed:
        path = place if place.is_file() and len(listed) == 1 else place / str(file.get("path"))
        reason = _difference(path, file)
        if reason is not None:
            yield Finding(check="source", source=source, message=f"{path}: {reason}")


def unhashed(run: SealedRun, source: str) -> int:
    """Pinned files of which no SHA-256 was taken, so that their size alone can be checked."""
    return sum(file.get("sha256") is None for file in _files(run, source))


def _files(run: SealedRun, source: str) -> list[Mapping[str, object]]:
    if source not in run.sources:
        raise UsageFault(f"--source {source}: the run read {', '.join(run.sources)}")
    listed = run.pins[run.sources.index(source)].get("files")
    if not isinstance(listed, list):
        raise UsageFault(f"--source {source}: its pin lists no files")
    return [file for file in listed if isinstance(file, Mapping)]


def _difference(path: Path, pinned: Mapping[str, object]) -> str | None:
    if not path.is_file():
        return "the file is not there"
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
