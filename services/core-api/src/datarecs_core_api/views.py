"""What a client sees of a run: the record of spec run-lifecycle 6 without its internals."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal

from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Run, RunError
from datarecs_core.values import instant_text


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else instant_text(moment)


def _error(error: RunError | None) -> dict[str, object] | None:
    if error is None:
        return None
    shown: dict[str, object] = {"code": error.code, "message": error.message}
    if error.detail_code is not None:
        shown["detail_code"] = error.detail_code
    return shown


def run_view(run: Run) -> dict[str, object]:
    """The run as JSON; decimals are text, times RFC 3339 in UTC."""
    summary = None if run.summary is None else asdict(run.summary)
    return {
        "run_id": str(run.run_id),
        "job_id": str(run.job_id),
        "job": run.job_name,
        "job_generation": run.job_generation,
        "spec_hash": run.spec_hash,
        "parameters": plain(run.parameters),
        "mode": run.mode,
        "triggered_by": run.triggered_by,
        "status": run.status,
        "result": run.result,
        "error": _error(run.error),
        "raw_error": _error(run.raw_error),
        "cancel_requested": run.cancel_requested,
        "cancelling": run.cancelling,
        "cancelled_by": run.cancelled_by,
        "cancel_reason": run.cancel_reason,
        "cancel_stale": run.cancel_stale,
        "backend": run.backend,
        "execution_name": run.execution_name,
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "priority": run.priority,
        "deadline_seconds": run.deadline_seconds,
        "deadline_at": _time(run.deadline_at),
        "created_at": _time(run.created_at),
        "queued_at": _time(run.queued_at),
        "started_at": _time(run.started_at),
        "ended_at": _time(run.ended_at),
        "closed_at": _time(run.closed_at),
        "summary": summary,
        "last_sequence": run.last_sequence,
    }


def entry_view(entry: HistoryEntry) -> dict[str, object]:
    """One line of a run's history."""
    return {
        "sequence": entry.sequence,
        "id": str(entry.event_id),
        "type": entry.type,
        "source": entry.source,
        "time": instant_text(entry.time),
        "disposition": entry.disposition,
        "data": plain(entry.data),
    }


def plain(value: object) -> object:
    """JSON values with decimals as exact text."""
    match value:
        case Decimal():
            return format(value, "f")
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def etag(run: Run) -> str:
    return f'"{run.run_id}:{run.row_version}"'
