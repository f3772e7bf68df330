"""A result as a file where the user wants it: its folder is made, a failure is told by its name."""

from pathlib import Path

from datarecs_cli.local.faults import OutNotWritableError


def save(target: Path, content: bytes) -> None:
    """Write a file of which a reader sees the whole or none.

    Raises:
        OutNotWritableError: it cannot be written there.
    """
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as cause:
        raise OutNotWritableError(target, cause.strerror or type(cause).__name__) from cause
