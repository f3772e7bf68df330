"""A route below /api/v1: it checks a permission before anything else, and publishes its body.

Checked when the route is registered, so that a process with an open route does not start.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from fastapi import FastAPI, WebSocket
from fastapi.routing import APIRoute, APIWebSocketRoute, iter_route_contexts

from datarecs_core.access.permissions import Permission
from datarecs_core_api.auth import Needs
from datarecs_core_api.signed import SignedBody
from datarecs_core_api.strict_query import refuse_other_parameters
from datarecs_core_api.worker_door import NeedsWorker

_CONVERTOR = re.compile(r":\w+\}")
"""What a published path does not have: `{job_id:not_now}`."""
PREFIX = "/api/v1"
ANY_PRINCIPAL = "any principal"


@runtime_checkable
class TakesBody(Protocol):
    """A dependency that reads the body, with its allowed content."""

    def request_body(self) -> Mapping[str, object]:
        """The Request Body Object of OpenAPI; schemas by reference to components."""


class StrictRoute(APIRoute):
    """A route that refuses unknown query parameters."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  options of FastAPI
        super().__init__(path, endpoint, **options)
        refuse_other_parameters(self, position=0)


class GuardedRoute(APIRoute):
    """Raises TypeError at registration unless it checks exactly one permission, first."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  options of FastAPI
        super().__init__(path, endpoint, **options)
        calls: list[object] = [one.call for one in self.dependant.dependencies]
        guards = [call for call in calls if isinstance(call, Needs)]
        if len(guards) != 1 or calls[0] is not guards[0]:
            raise TypeError(f"{path} must check exactly one permission, before anything else")
        refuse_other_parameters(self, position=1)
        permission = guards[0].permission
        self.permission_name = ANY_PRINCIPAL if permission is None else str(permission)
        bodies = [call.request_body() for call in calls if isinstance(call, TakesBody)]
        self.openapi_extra = {
            **(self.openapi_extra or {}),
            "x-datarecs-permission": self.permission_name,
            "security": [{"apiKey": []}],
            **({"requestBody": dict(bodies[0])} if bodies else {}),
        }


class PublicRoute(StrictRoute):
    """A page for the reader of a mail: it requires only a signed token in its path.

    Not an operation of the API, so it is not in the OpenAPI document.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  options of FastAPI
        if "{token}" not in path:
            raise TypeError(f"{path} takes no token")
        super().__init__(path, endpoint, **{**options, "include_in_schema": False})


class SignedRoute(APIRoute):
    """A route for a program of the operator: its body is signed, before anything else.

    Not an operation of the API, so it is not in the OpenAPI document.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  options of FastAPI
        super().__init__(path, endpoint, **{**options, "include_in_schema": False})
        calls = [one.call for one in self.dependant.dependencies]
        if not calls or not isinstance(calls[0], SignedBody):
            raise TypeError(f"{path} must verify a signature, before anything else")
        refuse_other_parameters(self, position=1)


class WorkerRoute(APIRoute):
    """A route of the control API: it admits a remote worker, before anything else.

    For capture-worker alone, so it is not in the OpenAPI document.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  options of FastAPI
        super().__init__(path, endpoint, **{**options, "include_in_schema": False})
        calls = [one.call for one in self.dependant.dependencies]
        if not calls or not isinstance(calls[0], NeedsWorker):
            raise TypeError(f"{path} must admit a worker, before anything else")
        refuse_other_parameters(self, position=1)
        self.permission_name = str(Permission.QUEUE_WORK)


class GuardedSocketRoute(APIWebSocketRoute):
    """A WebSocket; its endpoint admits it by a ticket and this permission.

    A dependency cannot do this: the refusal of a socket is a separate HTTP response.
    """

    def __init__(
        self, path: str, endpoint: Callable[[WebSocket], Any], *, permission: Permission
    ) -> None:
        super().__init__(path, endpoint)
        self.permission_name = str(permission)


def guarded_routes(app: FastAPI) -> dict[tuple[str, str], str]:
    """(method, path) -> permission of every HTTP route; the role and route matrix is made from it.

    Raises:
        TypeError: a route below /api/v1 is not guarded.
    """
    table = {}
    for route in iter_route_contexts(app.routes):
        path = _CONVERTOR.sub("}", route.path or "")
        if not path.startswith(PREFIX):
            continue
        original = route.original_route
        if isinstance(original, GuardedSocketRoute | PublicRoute | SignedRoute):
            continue
        if not isinstance(original, GuardedRoute | WorkerRoute):
            raise TypeError(f"{path} checks no permission")
        for method in route.methods or ():
            table[method, path] = original.permission_name
    return table


def methods_of(app: FastAPI, path: str) -> tuple[str, ...]:
    """Methods that some route takes at this path, for `Allow`; HEAD wherever there is GET."""
    methods = set(_matching(app, path))
    return tuple(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _matching(app: FastAPI, path: str) -> Iterator[str]:
    for route in iter_route_contexts(app.routes):
        if route.methods and route.path_regex.match(path):
            yield from route.methods
