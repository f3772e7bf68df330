"""The text of an error: one line with what, where and why, then the fix and the page."""

import json
import secrets
import traceback
from pathlib import Path

from datarecs_cli.exit_codes import ExitCode
from datarecs_core.errors.base import DatarecsError

ERROR_SCHEMA = "datarecs.cli.error/1"


def as_text(error: DatarecsError) -> str:
    """For people: control characters of foreign text become visible, line ends stay."""
    entry = error.code.entry
    first, *more = plain(str(error)).rstrip().split("\n")
    lines = [f"{entry.docs_id} {first}", *(f"  | {line}" for line in more if line)]
    lines += [f"  fix   {fix_of(error)}", f"  docs  datarecs errors {entry.docs_id}"]
    return "\n".join(lines)


def as_json(error: DatarecsError, exit_code: ExitCode) -> str:
    """For programs: one problem object."""
    entry = error.code.entry
    return json.dumps(
        {
            "schema": ERROR_SCHEMA,
            "code": error.code.name,
            "docs_id": entry.docs_id,
            "title": entry.meaning,
            "detail": str(error),
            "fix": fix_of(error),
            "retryable": error.retryable,
            "exit_code": exit_code,
        }
    )


def fix_of(error: DatarecsError) -> str:
    """The fix of this error if it has one, else the fix of the catalogue."""
    return error.fix or error.code.entry.remedy


def plain(text: str) -> str:
    """The text without control characters of terminals; line ends stay."""
    return "".join(
        character if character == "\n" or character.isprintable() else f"\\x{ord(character):02x}"
        for character in text
    )


def store_traceback(error: BaseException, folder: Path) -> tuple[str, Path]:
    """Store the traceback of a defect; (trace id, file). The screen shows neither code nor data."""
    trace_id = secrets.token_hex(8)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{trace_id}.log"
    path.touch(mode=0o600)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return trace_id, path
