"""Writes a result to a file: creates its folder, and a failure becomes a named error."""

from pathlib import Path

from datarecs_cli.local.faults import OutNotWritableError


def save(target: Path, content: bytes) -> None:
    """Write a file; a reader sees the whole file or none.

    Raises:
        OutNotWritableError: the file cannot be written.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as cause:
        raise OutNotWritableError(target, cause.strerror or type(cause).__name__) from cause
