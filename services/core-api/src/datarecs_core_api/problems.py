"""Problem details (RFC 9457): which HTTP status each error code has, and what the body may contain.

The only place that maps a code to a status. A body never repeats an input value, a stack, SQL, a
path or an address of the platform; the log has the rest under `trace_id`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fastapi.responses import JSONResponse
from starlette.requests import HTTPConnection

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError, ErrorCode
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.errors.catalogue import CatalogueCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core.errors.sink import SinkCode
from datarecs_core.errors.storage import StorageCode
from datarecs_core.values import instant_text

STATUS: Mapping[ErrorCode, int] = {
    ApiCode.MALFORMED_REQUEST: 400,
    ApiCode.INVALID_CURSOR: 400,
    ApiCode.INVALID_IDEMPOTENCY_KEY: 400,
    SecurityCode.KEY_IN_URL: 400,
    SecurityCode.UNAUTHENTICATED: 401,
    SecurityCode.FORBIDDEN: 403,
    ApiCode.NOT_FOUND: 404,
    ApiCode.RESULT_LOST: 404,
    CaptureCode.CAPTURE_NOT_FOUND: 404,
    ApiCode.METHOD_NOT_ALLOWED: 405,
    ApiCode.NOT_ACCEPTABLE: 406,
    ApiCode.ALREADY_EXISTS: 409,
    ApiCode.BEING_DELETED: 409,
    ApiCode.JOB_NOT_READY: 409,
    ApiCode.WRITE_CONFLICT: 409,
    ApiCode.RUN_ALREADY_TERMINAL: 409,
    ApiCode.RUN_NOT_TERMINAL: 409,
    CaptureCode.CAPTURE_ENDED: 409,
    CaptureCode.LEASE_LOST: 409,
    SinkCode.SINK_NOT_STARTED: 409,
    SinkCode.TABLES_DIFFER: 409,
    SinkCode.DECISION_OPEN: 409,
    ApiCode.IDEMPOTENCY_KEY_BUSY: 409,
    ApiCode.ACTION_OPEN: 409,
    ApiCode.TOO_MANY_SECRETS: 409,
    ApiCode.PLACE_EXPIRED: 410,
    ApiCode.PRECONDITION_FAILED: 412,
    ApiCode.BODY_TOO_LARGE: 413,
    ApiCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ApiCode.INVALID_INPUT: 422,
    ApiCode.INVALID_SPEC: 422,
    ApiCode.IDEMPOTENCY_KEY_REUSED: 422,
    CaptureCode.OUTCOME_REFUSED: 422,
    ApiCode.PRECONDITION_REQUIRED: 428,
    ApiCode.TOO_MANY_REQUESTS: 429,
    SecurityCode.QUOTA_EXCEEDED: 429,
    ApiCode.INTERNAL_ERROR: 500,
    CatalogueCode.CATALOGUE_INCONSISTENT: 500,
    StorageCode.BLOB_CORRUPT: 500,
    ApiCode.UNAVAILABLE: 503,
    CatalogueCode.UNSUPPORTED_RECORD_VERSION: 503,
}
"""A code without a line here never reaches a client: it is reported as INTERNAL_ERROR."""
MEDIA_TYPE = "application/problem+json"
MAX_FAULTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One entry of `errors`: the place in the request, the fault, the fix."""

    code: str
    pointer: str
    message: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None

    def as_json(self) -> dict[str, object]:
        pairs = {
            "code": self.code,
            "pointer": self.pointer,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "hint": self.hint,
        }
        return {name: value for name, value in pairs.items() if value is not None}


@dataclass(slots=True, kw_only=True)
class ProblemError(DatarecsError):
    """A refusal on its way to the client; raised by routes and readers, rendered by the app."""

    code: ErrorCode
    detail: str
    faults: Sequence[Fault] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Exception.__init__(self, self.detail)


def not_found(what: str) -> ProblemError:
    """The same body for an unknown name and for another tenant's."""
    return ProblemError(code=ApiCode.NOT_FOUND, detail=f"there is no such {what}")


def result_lost() -> ProblemError:
    """The database has the result of a run, and the store of artefacts does not."""
    return ProblemError(
        code=ApiCode.RESULT_LOST,
        detail="the result of this run is missing in the store of artefacts; restore it from a "
        "backup",
    )


def differences_removed(at: datetime) -> ProblemError:
    """A retention policy removed the differences; the counts are still in the report."""
    return ProblemError(
        code=ApiCode.NOT_FOUND,
        detail=f"a retention policy removed the differences of this run at {instant_text(at)}; "
        "its counts and measures are in the report",
    )


def invalid(detail: str, *faults: Fault) -> ProblemError:
    """422: readable, and not allowed."""
    return ProblemError(code=ApiCode.INVALID_INPUT, detail=detail, faults=faults)


def input_fault(pointer: str, message: str) -> Fault:
    return Fault(code=ApiCode.INVALID_INPUT.docs_id, pointer=pointer, message=message)


def response(request: HTTPConnection, error: ProblemError) -> JSONResponse:
    """The response; at most 100 faults, the detail has their number."""
    code, status = error.code, STATUS[error.code]
    body: dict[str, object] = {
        "type": f"urn:datarecs:error:{code.docs_id}",
        "title": code.entry.meaning,
        "status": status,
        "detail": error.detail,
        "instance": request.url.path,
        "code": code.docs_id,
        "reason": code.name,
        "trace_id": request.state.trace_id,
        "request_id": request.state.request_id,
    }
    if error.faults:
        body["errors"] = [fault.as_json() for fault in error.faults[:MAX_FAULTS]]
    if len(error.faults) > MAX_FAULTS:
        body["detail"] = f"{error.detail}; {len(error.faults)} faults, the first {MAX_FAULTS} shown"
    if "Retry-After" in error.headers:
        body["retry_after_s"] = int(error.headers["Retry-After"])
    return JSONResponse(
        body, status_code=status, headers=dict(error.headers), media_type=MEDIA_TYPE
    )
