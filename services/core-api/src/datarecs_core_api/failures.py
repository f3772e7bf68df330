"""From any exception to the problem for the client.

Separate from `problems`, which maps codes to HTTP: here exceptions of use cases, stores and the
framework become codes, and every other exception is a 500 without details.
"""

from collections.abc import Iterable

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from datarecs_application.errors import KeyBusyError, StoreBusyError, StoreUnavailableError
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.catalogue import CatalogueBusyError
from datarecs_core.errors.faults import pointer
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.resources.refusals import PreconditionFailedError, ResourceNotFoundError
from datarecs_core_api.inputs import said
from datarecs_core_api.problems import (
    STATUS,
    Fault,
    ProblemError,
    input_fault,
    invalid,
    not_found,
    response,
)
from datarecs_specs.documents import InvalidSpecError
from datarecs_specs.findings import Finding

log = structlog.get_logger()
_ROUTER = {
    404: (ApiCode.NOT_FOUND, "there is no such path"),
    405: (ApiCode.METHOD_NOT_ALLOWED, "this path does not support this method"),
}


def problem_of(error: Exception) -> ProblemError:
    """The problem for the client; a defect is logged here and reported as INTERNAL_ERROR."""
    match error:
        case ProblemError():
            return error
        case InvalidSpecError():
            return ProblemError(
                code=error.code,
                detail="the declaration has faults",
                faults=spec_faults(error.findings),
            )
        case HTTPException() | RequestValidationError():
            return _of_framework(error)
        case PreconditionFailedError():
            return ProblemError(code=error.code, detail=str(error), headers={"ETag": error.etag})
        case ResourceNotFoundError():
            return not_found(str(error.kind))
        case _:
            return _of_store(error)


_AWAY = {
    StoreUnavailableError: "the database cannot be reached",
    BlobStoreUnavailableError: "the store of artefacts cannot be reached",
    SecretUnavailableError: "a secret of the platform cannot be read",
}


def _of_store(error: Exception) -> ProblemError:
    match error:
        case KeyBusyError():
            detail = "another request with this Idempotency-Key is in progress"
            return _later(ApiCode.IDEMPOTENCY_KEY_BUSY, detail, seconds=1)
        case StoreBusyError() | CatalogueBusyError():
            return _later(
                ApiCode.WRITE_CONFLICT, "other requests changed the object first; repeat", seconds=1
            )
        case StoreUnavailableError() | BlobStoreUnavailableError() | SecretUnavailableError():
            log.warning("dependency_unavailable", code=error.code.docs_id, cause=str(error))
            return _later(ApiCode.UNAVAILABLE, _AWAY[type(error)], seconds=2)
        case _:
            return _known_or_defect(error)


def _known_or_defect(error: Exception) -> ProblemError:
    if isinstance(error, DatarecsError) and error.code in STATUS:
        return ProblemError(code=error.code, detail=str(error))
    log.error("request_failed", exc_info=error)
    return ProblemError(code=ApiCode.INTERNAL_ERROR, detail="the server failed unexpectedly")


def _later(code: ApiCode, detail: str, *, seconds: int) -> ProblemError:
    return ProblemError(code=code, detail=detail, headers={"Retry-After": str(seconds)})


def _of_framework(error: HTTPException | RequestValidationError) -> ProblemError:
    if isinstance(error, RequestValidationError):
        faults = [input_fault(pointer(tuple(one["loc"])), said(one)) for one in error.errors()]
        return invalid("a parameter is not allowed", *faults)
    code, detail = _ROUTER.get(
        error.status_code, (ApiCode.MALFORMED_REQUEST, "the request cannot be read")
    )
    return ProblemError(code=code, detail=detail)


def spec_faults(findings: Iterable[Finding]) -> tuple[Fault, ...]:
    """Every fault of a declaration with its pointer and, for YAML, its place."""
    return tuple(
        Fault(
            code=one.code.docs_id,
            pointer=one.pointer,
            line=one.line,
            column=one.column,
            message=one.message,
            hint=one.hint or None,
        )
        for one in findings
    )


async def on_error(request: Request, error: Exception) -> Response:
    """Registered for all exceptions that routes and dependencies define."""
    return response(request, problem_of(error))
