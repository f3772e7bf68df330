"""Who may use the control API, and who else may not use anything but it.

The permission `queue.work` is held by workers with a token of the operator's issuer alone: every
API key is refused there, and a worker is refused everywhere else.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from fastapi import Request
from starlette.requests import HTTPConnection

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.capturing import CaptureControl
from datarecs_core.access.permissions import Permission
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core_api.auth import authenticator
from datarecs_core_api.problems import ProblemError
from datarecs_core_api.worker_tokens import RemoteWorker, TokenFaultError, TokenVerifier

log = structlog.get_logger()
MOST_CLAIMS = 8
"""Claims of one replica at the same time, with those that wait for work."""
QUEUE_S = 0.25
_ELSEWHERE = "the token of a worker is accepted below /api/v1/worker alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDoor:
    """The control API of one replica."""

    control: CaptureControl
    """Over the database login of the capture-worker."""
    verifier: TokenVerifier
    header: str
    """That has the token."""
    _claims: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_CLAIMS), init=False
    )

    def caller(self, request: Request) -> RemoteWorker:
        """The worker.

        Raises:
            ProblemError: 401 without a valid token or key; 403 for every other caller; 429 for an
                address that fails too often.
        """
        keys = authenticator(request)
        token = self._token(request)
        if token is None:
            # An API key, or no credential: 401 comes from there.
            raise keys.refused(request, keys.principal(request), Permission.QUEUE_WORK)
        try:
            worker = self.verifier.worker(token)
        except TokenFaultError as fault:
            log.warning("worker_token_refused", cause=str(fault))
            detail = "the token of the worker is not valid; core-api logs why"
            raise keys.failure(request, reason="worker_token", detail=detail) from fault
        if not worker.is_worker:
            log.warning("worker_refused", subject=worker.subject)
            raise ProblemError(
                code=SecurityCode.FORBIDDEN,
                detail=f"this token lacks the permission {Permission.QUEUE_WORK}: the role `worker`"
                " in `roles`, and a tenant or `*` in `datarecs_tenant`",
            )
        return worker

    def refuse_elsewhere(self, request: HTTPConnection) -> None:
        """Raises ProblemError (403) for a valid token on a route for keys."""
        token = self._token(request)
        if token is None:
            return
        try:
            worker = self.verifier.worker(token)
        except (TokenFaultError, StoreUnavailableError):
            return  # no credential
        log.warning("worker_refused", subject=worker.subject, path=request.scope["path"])
        raise ProblemError(code=SecurityCode.FORBIDDEN, detail=_ELSEWHERE)

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[None]:
        """One of the claims at the same time.

        Raises ProblemError (429) if none becomes free within a quarter of a second.
        """
        try:
            async with asyncio.timeout(QUEUE_S):
                await self._claims.acquire()
        except TimeoutError:
            raise ProblemError(
                code=ApiCode.TOO_MANY_REQUESTS,
                detail=f"queue-busy: {MOST_CLAIMS} other claims wait for work",
                headers={"Retry-After": "1"},
            ) from None
        try:
            yield
        finally:
            self._claims.release()

    def _token(self, request: HTTPConnection) -> str | None:
        """The one bearer token that has the form of a signed one; an API key has no dots."""
        values = request.headers.getlist(self.header)
        scheme, _, text = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        return text.strip() if scheme.lower() == "bearer" and text.count(".") == 2 else None  # noqa: PLR2004  parts of a token


def door(request: Request) -> WorkerDoor:
    """Of an application with the control API."""
    opened: WorkerDoor = request.app.state.worker_door
    return opened


class NeedsWorker:
    """Dependency of a `WorkerRoute`: a worker with the permission `queue.work`."""

    def __call__(self, request: Request) -> RemoteWorker:
        return door(request).caller(request)
