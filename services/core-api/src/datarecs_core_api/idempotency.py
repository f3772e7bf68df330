"""Idempotency-Key: the response of a POST is stored with its effect, in one commit, and repeated.

One function for every POST, so that no route skips a step.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from fastapi import Request, Response
from pydantic import BaseModel

from datarecs_application.ports.state import KeyUse, StoredAnswer, Transaction, UnitOfWork
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core_api.problems import ProblemError
from datarecs_core_api.transactions import repeated

MAX_KEY_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of a route as data, so that it can be stored and repeated byte for byte."""

    status: int
    body: BaseModel
    headers: Mapping[str, str] = field(default_factory=dict)
    replay_body: BaseModel | None = None
    """The body of a repetition, where the first one contains a secret that is shown once."""

    def first(self) -> Response:
        return _respond(self._with(self.body))

    def stored(self) -> StoredAnswer:
        return self._with(self.replay_body or self.body)

    def _with(self, body: BaseModel) -> StoredAnswer:
        data = body.model_dump_json(by_alias=True).encode()
        return StoredAnswer(status=self.status, headers=self.headers, body=data)


def _respond(answer: StoredAnswer, *, replayed: bool = False) -> Response:
    headers = dict(answer.headers)
    if replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(
        answer.body, status_code=answer.status, headers=headers, media_type="application/json"
    )


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not all(" " <= one <= "~" for one in key):
        raise ProblemError(
            code=ApiCode.INVALID_IDEMPOTENCY_KEY,
            detail="an Idempotency-Key has 1 to 255 printable ASCII characters",
        )
    return key


def once(
    request: Request,
    canonical: bytes,
    *,
    unit: UnitOfWork,
    caller: Principal,
    act: Callable[[Transaction, str | None], Answer],
) -> Response:
    """Run `act` in one transaction; with a repeated key return the first response.

    Args:
        request: names method, path, query and key.
        canonical: the body in the form that identifies a repetition.
        unit: opens the transaction.
        caller: keys are separate per caller and route.
        act: may be called again after a lost race, from the top.

    Raises:
        ProblemError: 422 DR4022, the key was used for another request; 400, the key is malformed.
        KeyBusyError: another request with this key is in progress.
    """
    key, route = _key(request), f"{request.method} {request.url.path}"
    query = sorted(request.query_params.multi_items())
    digest = hashlib.sha256(f"{route}\n{query}\n".encode() + canonical).digest()

    def work(tx: Transaction) -> Response:
        if key is None:
            return act(tx, None).first()
        earlier = _earlier(tx, caller, route=route, key=key, digest=digest)
        if earlier is not None:
            return _respond(earlier, replayed=True)
        answer = act(tx, key)
        stored = answer.stored()
        tx.idempotency.store(principal=caller.subject, route=route, key=key, answer=stored)
        return answer.first()

    return repeated(unit, caller.tenant_id, work, feed=True)


def _earlier(
    tx: Transaction, caller: Principal, *, route: str, key: str, digest: bytes
) -> StoredAnswer | None:
    """Claim the key; returns its stored response, if there is one."""
    use, earlier = tx.idempotency.take(
        principal=caller.subject, route=route, key=key, request_hash=digest
    )
    match use:
        case KeyUse.NEW:
            return None
        case KeyUse.REPLAY if earlier is not None:
            return earlier
        case KeyUse.REPLAY | KeyUse.MISMATCH:
            raise ProblemError(
                code=ApiCode.IDEMPOTENCY_KEY_REUSED,
                detail="this Idempotency-Key was used for another request",
            )
        case _:
            assert_never(use)
