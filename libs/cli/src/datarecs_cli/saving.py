"""Writes a result to a file: creates its folder, and a failure becomes a named error."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from datarecs_cli.invocation import UsageFault
from datarecs_cli.local.faults import OutNotWritableError, reason_of

_DASH = Path("-")
_STDOUT = frozenset(map(Path, ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")))
_DEVICES = (Path("/dev"), Path("/proc"))


def save(target: Path, content: bytes) -> None:
    """Write a file; a reader sees the whole file or none.

    Raises:
        OutNotWritableError: the file cannot be written.
    """
    with replacing(target) as partial:
        partial.write_bytes(content)


def refuse_stdout(flag: str, target: Path | None) -> None:
    """Refuse `-`, which would become the name of a file.

    Raises:
        UsageFault: the target is `-`.
    """
    if target == _DASH:
        raise UsageFault(f"{flag} -: name a file; for a pipe write {flag} /dev/stdout")


def is_stdout(target: Path) -> bool:
    """Whether the file is stdout, where nothing else may be printed."""
    return target in _STDOUT


@contextmanager
def replacing(target: Path, *, shown: Path | None = None) -> Iterator[Path]:
    """A temporary file that replaces the target after the block; none is left after an error.

    A pipe or a device is written in place: it cannot be replaced.

    Args:
        target: the file to write; its folder is created.
        shown: the place in messages; default the target.

    Raises:
        UsageFault: the target is `-`.
        OutNotWritableError: the target is a folder, or the file cannot be written.
    """
    refuse_stdout("--out", target)
    shown = shown or target
    if target.is_dir():
        raise OutNotWritableError(shown, "it is a folder; name a file in it")
    in_place = _is_device(target)
    partial = target if in_place else target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        if not in_place:
            partial.replace(target)
    except OSError as cause:
        if isinstance(cause, BrokenPipeError):  # the reader of a pipe has enough
            raise
        raise OutNotWritableError(shown, reason_of(cause)) from cause
    finally:
        if not in_place:
            with suppress(OSError):  # it does not exist, or its folder cannot be written
                partial.unlink()


def _is_device(target: Path) -> bool:
    """Whether the target is no regular file; `/dev/stdout` may lead to one."""
    place = Path(os.path.abspath(target))  # noqa: PTH100  links stay
    if any(folder in place.parents for folder in _DEVICES):
        return True
    try:
        return not stat.S_ISREG(target.stat().st_mode)
    except OSError:
        return False
