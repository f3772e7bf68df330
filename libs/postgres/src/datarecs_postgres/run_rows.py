"""Convert a Run to a row and back. Separate from `runs`: lists and live views also read rows."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from datetime import datetime
from enum import Enum
from typing import Any

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.model import (
    Backend,
    Run,
    RunError,
    RunMode,
    RunResult,
    RunStatus,
    Wish,
)
from datarecs_core.runs.summary import read_summary
from datarecs_core.values import aware

NUMBERED = frozenset({"row_version", "last_sequence", "feed_rv"})
"""Columns that a save does not write: the numbering sets them, or the save raises them."""


def to_row(run: Run) -> dict[str, object]:
    """Values by column name."""
    plain = {name: _plain(getattr(run, name)) for name in _COLUMN_FIELDS}
    return plain | {name: value for make in _SPREAD.values() for name, value in make(run).items()}


def changes(before: Run, after: Run) -> dict[str, object]:
    """Values by column name that differ, without the columns that a save does not write."""
    columns = {
        name: _plain(new)
        for name in _SAVED
        if (new := getattr(after, name)) is not (old := getattr(before, name)) and new != old
    }
    for name, make in _SPREAD.items():
        if getattr(after, name) != getattr(before, name):
            old_columns = make(before)
            columns |= {key: new for key, new in make(after).items() if new != old_columns[key]}
    return columns


def _error_columns(run: Run) -> dict[str, object]:
    error = run.error
    return {
        "error_code": None if error is None else error.code.value,
        "error_message": None if error is None else error.message,
        "error_detail_code": None if error is None else error.detail_code,
    }


def _raw_error_column(run: Run) -> dict[str, object]:
    return {"raw_error": None if run.raw_error is None else asdict(run.raw_error)}


def _summary_column(run: Run) -> dict[str, object]:
    return {"summary": None if run.summary is None else asdict(run.summary)}


_SPREAD: Mapping[str, Callable[[Run], dict[str, object]]] = {
    "error": _error_columns,
    "raw_error": _raw_error_column,
    "summary": _summary_column,
}
"""Fields that are not one column with the same name and value."""
_COLUMN_FIELDS = dict.fromkeys(one.name for one in fields(Run) if one.name not in _SPREAD)
"""Fields that are one column each, in order."""
_SAVED = tuple(name for name in _COLUMN_FIELDS if name not in NUMBERED)


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _defaults() -> Mapping[str, object]:
    defaults = {one.name: one.default for one in fields(Run) if one.default is not MISSING}
    columns = dict.fromkeys(("error_code", "error_message", "error_detail_code"))
    return {
        **{name: _plain(value) for name, value in defaults.items() if name != "error"},
        **columns,
        "parameters": {},
    }


DEFAULTS: Mapping[str, object] = _defaults()
"""Values of columns without a value in an insert; equal to the column defaults of the table."""


def from_row(row: Any) -> Run:  # noqa: ANN401  a row of SQLAlchemy or of the driver
    """The run of a complete row of `run`."""
    plain = {name: _read(getattr(row, name)) for name in _COLUMN_FIELDS}
    return Run(
        **plain
        | {
            "mode": RunMode(row.mode),
            "status": RunStatus(row.status),
            "result": None if row.result is None else RunResult(row.result),
            "backend": Backend(row.backend),
            "wish": Wish(row.wish),
            "error": _error(row.error_code, row.error_message, row.error_detail_code),
            "raw_error": _raw_error(row.raw_error),
            "summary": None if row.summary is None else read_summary(row.summary),
        }
    )


def _read(value: Any) -> Any:  # noqa: ANN401  one column of any type
    return aware(value) if isinstance(value, datetime) else value


def _error(code: str | None, message: str | None, detail_code: str | None) -> RunError | None:
    if code is None:
        return None
    return RunError(code=RunErrorCode(code), message=message or "", detail_code=detail_code)


def _raw_error(stored: Mapping[str, Any] | None) -> RunError | None:
    if stored is None:
        return None
    return _error(stored["code"], stored["message"], stored["detail_code"])
