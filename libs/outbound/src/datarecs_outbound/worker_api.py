"""Port CaptureControl over the control API of core-api, for workers outside the database's reach.

This module alone attaches the token of the worker; no other outgoing call has one. A refused token
is replaced once; refused again, claims stop for a minute at a time and the process is not ready.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

import httpx

from datarecs_application.capturing.wire import (
    EPOCH_HEADER,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    TENANT_HEADER,
    ClaimWish,
    RemoteReport,
    RenewalList,
    TokenList,
)
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.capturing import Assignment, ClaimRequest, Claims, Renewed
from datarecs_application.ports.outside import Clock
from datarecs_core.captures.items import WorkKind, WorkToken
from datarecs_core.captures.outcomes import Finalize, Outcome
from datarecs_core.document_types import strict_document
from datarecs_core.documents import to_document
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.captures import (
    CaptureCode,
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core.hashing import canonical_json
from datarecs_outbound.issuer import MachineToken

T = TypeVar("T")
JSON = "application/json"
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
PAUSE = timedelta(minutes=1)
"""How long nothing is claimed after two refused tokens."""
_TOO_LARGE = "it is larger than 64 MiB"


class ControlUnavailableError(StoreUnavailableError):
    """The control API cannot be reached, or cannot answer now."""

    def __init__(self, *, cause: str) -> None:
        Exception.__init__(self, f"the control API is not available: {cause}")
        self.cause = cause


class TokenRefusedError(ControlUnavailableError):
    """The control API refuses a token that the issuer has just given."""

    def __init__(self, *, status: int) -> None:
        super().__init__(
            cause=f"it refuses the token of this worker with status {status}; compare issuer,"
            " audience, role `worker` and claim `datarecs_tenant` of the client with the settings"
            " DATARECS_WORKER__API__… of core-api"
        )


class ControlBusyError(StoreBusyError):
    """Nothing was changed; repeat."""

    def __init__(self, *, cause: str) -> None:
        Exception.__init__(self, f"the control API is busy: {cause}")
        self.cause = cause


@dataclass(slots=True, kw_only=True)
class WorkerCalls:
    """Sends requests with the token of the worker; shared by the threads of a process."""

    url: str
    client: httpx.Client
    token: MachineToken
    header: str
    """That has the token, as `Bearer …`."""
    clock: Clock
    _refused_at: float | None = field(default=None, init=False)
    _refusal: str = field(default="", init=False)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401  options of httpx
        """An answer other than 401, 403, 429 and 5xx.

        Raises StoreUnavailableError, StoreBusyError.
        """
        token = self.token.current()
        answer = self._sent(token, method, path, **options)
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            answer = self._sent(self.token.in_place_of(token), method, path, **options)
        if answer.status_code in REFUSED:
            refused = TokenRefusedError(status=answer.status_code)
            self._refused_at, self._refusal = self.clock.monotonic(), str(refused)
            raise refused
        if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            raise ControlBusyError(cause=_detail(answer))
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ControlUnavailableError(cause=f"status {answer.status_code}: {_detail(answer)}")
        self._refused_at = None
        return answer

    def refuse_pause(self) -> None:
        """Raises ControlUnavailableError for a minute after a refusal: nothing is claimed."""
        refused_at = self._refused_at
        if refused_at is not None and self.clock.monotonic() < refused_at + PAUSE.total_seconds():
            raise ControlUnavailableError(cause=self._refusal)

    def ready(self) -> str | None:
        """Of the process: None, or why it cannot work."""
        return None if self._refused_at is None else self._refusal

    def close(self) -> None:
        self.client.close()

    def _sent(self, token: str, method: str, path: str, **options: Any) -> httpx.Response:  # noqa: ANN401  options of httpx
        headers = {
            **options.pop("headers", {}),
            PROTOCOL_HEADER: PROTOCOL,
            self.header: f"Bearer {token}",
        }
        try:
            return self.client.request(
                method, f"{self.url}{PREFIX}{path}", headers=headers, **options
            )
        except httpx.HTTPError as cause:
            raise ControlUnavailableError(
                cause=f"{self.url} does not answer ({type(cause).__name__})"
            ) from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteControl:
    """Port CaptureControl, over HTTP."""

    calls: WorkerCalls

    def claim(self, request: ClaimRequest) -> Claims:
        self.calls.refuse_pause()
        wish = ClaimWish(
            executor=request.executor,
            kinds=tuple(sorted(request.kinds)),
            lanes=tuple(request.lanes),
            execution_classes=tuple(request.execution_classes),
            limit=request.limit,
        )
        answer = self._posted("/claims", wish)
        return Claims(tokens=_read(TokenList, answer).items)

    def begin(self, token: WorkToken) -> Assignment | None:
        answer = self._item("POST", token, "begin")
        document = _object(answer).get("assignment")
        if document is None:
            return None
        try:
            return Assignment(
                token=token,
                kind=WorkKind(document["kind"]),
                frame=document["frame"],
                deadline_seconds=float(document["deadline_seconds"]),
                cancel_requested=document["cancel_requested"] is True,
            )
        except (KeyError, TypeError, ValueError) as cause:
            raise _unreadable() from cause

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
        answer = self._posted("/leases/renew", TokenList(items=tuple(tokens)))
        renewals = _read(RenewalList, answer).items
        return {
            one.token: Renewed(is_current=one.renewed, cancel_requested=one.cancel_requested)
            for one in renewals
        }

    def put_sidecar(self, token: WorkToken, path: str, sha256: str, content: bytes) -> None:
        query = urlencode({"path": path})
        binary = {"Content-Type": "application/octet-stream"}
        self._item("PUT", token, f"sidecars/{sha256}?{query}", content=content, headers=binary)

    def end(self, token: WorkToken, outcome: Outcome) -> None:
        if isinstance(outcome, Finalize):
            raise OutcomeRefusedError(
                item_id=token.item_id, faults=["a remote worker finalizes no snapshot"]
            )
        self._item("POST", token, "end", **_body(RemoteReport(outcome=outcome)))

    def _posted(self, path: str, document: object) -> httpx.Response:
        answer = self.calls.send("POST", path, **_body(document))
        if answer.is_success:
            return answer
        raise ControlUnavailableError(
            cause=f"status {answer.status_code}: {_detail(answer)}; is"
            " DATARECS_WORKER__API__ENABLED set in core-api, of the same release?"
        )

    def _item(self, method: str, token: WorkToken, act: str, **options: Any) -> httpx.Response:  # noqa: ANN401  options of httpx
        headers = {
            **options.pop("headers", {}),
            EPOCH_HEADER: str(token.epoch),
            TENANT_HEADER: str(token.tenant_id),
        }
        path = f"/items/{token.item_id}/{act}"
        answer = self.calls.send(method, path, headers=headers, **options)
        if not answer.is_success:
            _refuse(token, answer)
        return answer


def _body(document: object) -> dict[str, Any]:
    return {
        "content": canonical_json(to_document(document)),
        "headers": {"Content-Type": JSON},
    }


def _refuse(token: WorkToken, answer: httpx.Response) -> NoReturn:
    """The exception that the control beside the database would have raised."""
    problem = _object(answer)
    match problem.get("reason"):
        case CaptureCode.LEASE_LOST.name:
            raise LeaseLostError(item_id=token.item_id, epoch=token.epoch)
        case CaptureCode.CAPTURE_NOT_FOUND.name:
            raise CaptureNotFoundError(item_id=token.item_id)
        case CaptureCode.OUTCOME_REFUSED.name:
            raise OutcomeRefusedError(item_id=token.item_id, faults=_faults(problem))
        case ApiCode.BODY_TOO_LARGE.name:
            raise OutcomeRefusedError(item_id=token.item_id, faults=[_TOO_LARGE])
        case ApiCode.WRITE_CONFLICT.name:
            raise ControlBusyError(cause=_detail(answer))
        case _:
            raise ControlUnavailableError(cause=f"status {answer.status_code}: {_detail(answer)}")


def _faults(problem: Mapping[str, Any]) -> list[str]:
    errors = problem.get("errors")
    named = [
        str(one.get("message", ""))
        for one in (errors if isinstance(errors, list) else ())
        if isinstance(one, dict)
    ]
    return named or [str(problem.get("detail", ""))]


def _read(kind: type[T], answer: httpx.Response) -> T:
    try:
        return strict_document(kind, _object(answer))
    except ValueError as cause:
        raise _unreadable() from cause


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _unreadable()
    return document


def _detail(answer: httpx.Response) -> str:
    """For people; a proxy in between may answer anything."""
    try:
        return str(_object(answer).get("detail", ""))[:200]
    except ControlUnavailableError:
        return "no problem document"


def _unreadable() -> ControlUnavailableError:
    return ControlUnavailableError(
        cause="its answer cannot be read; use a worker of the release of core-api"
    )
