"""The application: routes, what wraps every request, and how each failure is told.

Importing does nothing; `build` is called once by `wiring`.
"""

from collections.abc import Awaitable, Callable

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from datarecs_application.errors import KeyBusyError, StoreBusyError, StoreUnavailableError
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core_api import problems
from datarecs_core_api.auth import Authenticator, Needs
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.inputs import pointer
from datarecs_core_api.problems import Fault, ProblemError
from datarecs_core_api.routes import keys, resources, runs, system

log = structlog.get_logger()
_SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
_MAX_REQUEST_ID = 128


def _request_id(request: Request, trace_id: str) -> str:
    given = request.headers.get("x-request-id", "")
    safe = given.isascii() and all(c.isalnum() or c in "-_." for c in given)
    return given if 1 <= len(given) <= _MAX_REQUEST_ID and safe else trace_id


async def _around(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    ports: Ports = request.app.state.ports
    traceparent = ports.traceparent(request.headers.get("traceparent"))
    request.state.traceparent = traceparent
    request.state.trace_id = traceparent.split("-")[1]
    request_id = _request_id(request, request.state.trace_id)
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(trace_id=request.state.trace_id, request_id=request_id)
    try:
        answer = await call_next(request)
    except Exception:  # the last resort of a process entry: a 500 that tells nothing
        log.exception("request_failed", method=request.method, path=request.url.path)
        answer = problems.response(
            request,
            ProblemError(code=ApiCode.INTERNAL_ERROR, detail="the server failed unexpectedly"),
        )
    answer.headers["X-Request-Id"] = request_id
    for name, value in _SECURITY_HEADERS.items():
        answer.headers.setdefault(name, value)
    return answer


def _as_problem(error: DatarecsError) -> ProblemError:
    match error:
        case ProblemError():
            return error
        case KeyBusyError():
            return ProblemError(
                code=ApiCode.IDEMPOTENCY_KEY_BUSY, detail=str(error), headers={"Retry-After": "1"}
            )
        case StoreBusyError():
            return ProblemError(
                code=ApiCode.WRITE_CONFLICT, detail="another write came first; repeat the request"
            )
        case StoreUnavailableError():
            return ProblemError(
                code=ApiCode.UNAVAILABLE,
                detail="the database cannot be reached",
                headers={"Retry-After": "2"},
            )
        case _:
            return ProblemError(code=error.code, detail=str(error))


async def _on_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, DatarecsError):
        raise TypeError("registered for DatarecsError alone")
    return problems.response(request, _as_problem(error))


async def _on_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise TypeError("registered for HTTPException alone")
    code = {404: ApiCode.NOT_FOUND, 405: ApiCode.METHOD_NOT_ALLOWED}.get(
        error.status_code, ApiCode.MALFORMED_REQUEST
    )
    headers = dict(error.headers or {})
    detail = "this path takes another method" if error.status_code == 405 else "no such path"  # noqa: PLR2004 - the two statuses the router raises
    return problems.response(request, ProblemError(code=code, detail=detail, headers=headers))


async def _on_parameters(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise TypeError("registered for RequestValidationError alone")
    faults = [
        Fault(
            code=ApiCode.INVALID_INPUT.docs_id,
            pointer=pointer(tuple(one["loc"])),
            message=str(one["msg"]),
        )
        for one in error.errors()
    ]
    problem = ProblemError(
        code=ApiCode.INVALID_INPUT, detail="a parameter is not allowed", faults=faults
    )
    return problems.response(request, problem)


def _needs_of(dependant: Dependant) -> list[Needs]:
    found = [dependant.call] if isinstance(dependant.call, Needs) else []
    return found + [one for inner in dependant.dependencies for one in _needs_of(inner)]


def guarded_routes(app: FastAPI) -> dict[tuple[str, str], str]:
    """(method, path) -> permission of every route; the role and route matrix is made from it.

    Raises:
        TypeError: a route below /api/v1 asks for no permission, or for two.
    """
    table = {}
    for route in app.routes:
        if not isinstance(route, APIRoute) or not route.path.startswith("/api/v1"):
            continue
        needs = _needs_of(route.dependant)
        if len(needs) != 1:
            raise TypeError(f"{route.path} must ask for exactly one permission")
        permission = needs[0].permission
        name = "any principal" if permission is None else str(permission)
        route.openapi_extra = {**(route.openapi_extra or {}), "x-datarecs-permission": name}
        for method in route.methods or ():
            table[method, route.path] = name
    return table


def build(ports: Ports, authenticator: Authenticator) -> FastAPI:
    """The whole application over these ports; refuses a route without a permission."""
    app = FastAPI(
        title="datarecs", version="1", openapi_url="/openapi.json", docs_url=None, redoc_url=None
    )
    app.state.ports = ports
    app.state.authenticator = authenticator
    for module in (resources, runs, keys, system):
        app.include_router(module.router)
    app.middleware("http")(_around)
    app.add_exception_handler(DatarecsError, _on_error)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_parameters)
    guarded_routes(app)
    return app
