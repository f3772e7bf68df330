"""The application: its routes, the layers around every request, and the reports of failures.

Importing does nothing; `build` is called once by `wiring`. `routes` alone is enough to publish the
OpenAPI document without a database.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from datarecs_application.ports.outside import Clock, Metrics
from datarecs_core.errors.base import DatarecsError
from datarecs_core_api.auth import Authenticator
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.describing import described
from datarecs_core_api.failures import on_error, problem_of
from datarecs_core_api.guarded import guarded_routes, methods_of
from datarecs_core_api.peers import Peers
from datarecs_core_api.problems import response
from datarecs_core_api.routes import (
    captures,
    catalogue,
    catalogue_keys,
    catalogue_tables,
    changes,
    controllers,
    deliveries,
    endpoint_verbs,
    events,
    keys,
    mail_reports,
    mails,
    people,
    previews,
    public,
    resources,
    results,
    runs,
    schedules,
    sinks,
    system,
    webhook_actions,
    webhook_consent,
    workers,
)
from datarecs_core_api.shell import Shell
from datarecs_core_api.worker_door import WorkerDoor
from datarecs_runtime.api_sections import Api
from datarecs_runtime.health import Health, ReadyCheck
from datarecs_runtime.tracing import arrival

METHOD_NOT_ALLOWED = 405
READY_S = 1.0
ROUTERS = (
    resources.router,
    changes.router,
    schedules.router,
    controllers.router,
    sinks.router,
    deliveries.router,
    webhook_actions.router,
    endpoint_verbs.router,
    runs.router,
    events.router,
    results.router,
    captures.router,
    catalogue.router,
    catalogue_keys.router,
    catalogue_tables.router,
    mails.router,
    mail_reports.router,
    previews.router,
    public.router,
    webhook_consent.router,
    keys.router,
    system.router,
    system.open_router,
    people.router,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the application runs on besides its routes."""

    ports: Ports
    authenticator: Authenticator
    metrics: Metrics
    ready_when: Mapping[str, ReadyCheck] = field(default_factory=dict)
    max_body_bytes: int = Api().max_body_bytes
    peers: Peers = field(default_factory=lambda: Peers(()))
    traceparent: Callable[[str | None], str] = arrival
    worker_door: WorkerDoor | None = None
    """None: there is no control API."""


def routes(*, for_workers: bool = False) -> FastAPI:
    """Every route without the layers around them; those of the control API on request.

    Raises:
        TypeError: a route below /api/v1 requires no permission.
    """
    app = FastAPI(
        title="datarecs",
        version="1",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (*ROUTERS, workers.router) if for_workers else ROUTERS:
        app.router.routes.extend(router.routes)  # `include_router` would build each of them again
    guarded_routes(app)
    return app


def _remembered(check: ReadyCheck, clock: Clock) -> ReadyCheck:
    """Caches the result for a second: /readyz is public, and each check costs a query."""
    last: tuple[float, str | None] | None = None

    def check_if_stale() -> str | None:
        nonlocal last
        now = clock.monotonic()
        if last is None or now - last[0] >= READY_S:
            last = now, check()
        return last[1]

    return check_if_stale


async def _on_router(request: Request, error: Exception) -> Response:
    """An unknown path, or one that takes other methods."""
    answer = response(request, problem_of(error))
    if answer.status_code == METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(methods_of(request.app, request.scope["path"]))
    return answer


def build(service: Service) -> FastAPI:
    """The whole application; refuses a route without a permission."""
    app = routes(for_workers=service.worker_door is not None)
    app.state.worker_door = service.worker_door
    app.state.ports = service.ports
    app.state.authenticator = service.authenticator
    app.state.max_body_bytes = service.max_body_bytes
    app.state.health = Health(
        ready_when={
            name: _remembered(check, service.ports.clock)
            for name, check in service.ready_when.items()
        },
        started=True,
    )
    app.openapi = cache(partial(described, app))  # type: ignore[method-assign]  # FastAPI's way
    app.add_middleware(
        Shell,
        traceparent=service.traceparent,
        peers=service.peers,
        metrics=service.metrics,
        clock=service.ports.clock,
    )
    app.add_exception_handler(DatarecsError, on_error)
    app.add_exception_handler(RequestValidationError, on_error)
    app.add_exception_handler(HTTPException, _on_router)
    return app
