"""Idempotency-Key: the answer of a POST is stored with its effect, in one commit, and given again.

One function for every POST, so that no route forgets a step.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from fastapi import Request, Response

from datarecs_application.ports.state import KeyUse, StoredAnswer, Transaction, UnitOfWork
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core_api.problems import ProblemError

MAX_KEY_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a route answers, as data, so that it can be stored and repeated byte for byte."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    shown_once: Mapping[str, object] = field(default_factory=dict)
    """Members of the first answer alone, such as a new secret; never stored."""

    def stored(self) -> StoredAnswer:
        return self._with({})

    def first(self) -> StoredAnswer:
        return self._with(self.shown_once)

    def _with(self, more: Mapping[str, object]) -> StoredAnswer:
        body = json.dumps({**self.body, **more}).encode()
        return StoredAnswer(status=self.status, headers=self.headers, body=body)


def respond(answer: StoredAnswer, *, replayed: bool = False) -> Response:
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
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not all("!" <= c <= "~" or c == " " for c in key):
        raise ProblemError(
            code=ApiCode.INVALID_IDEMPOTENCY_KEY,
            detail="an Idempotency-Key has 1 to 255 printable ASCII characters",
        )
    return key


def once(
    request: Request,
    body: bytes,
    *,
    unit: UnitOfWork,
    caller: Principal,
    act: Callable[[Transaction, str | None], Answer],
) -> Response:
    """Run `act` in one transaction; under a repeated key give the first answer again.

    Raises:
        ProblemError: 422 DR4022, the key was used for another request; 400, the key is malformed.
        KeyBusyError: another request with this key is under way.
    """
    key, route = _key(request), f"{request.method} {request.url.path}"
    digest = hashlib.sha256(route.encode() + b"\n" + body).digest()
    with unit.begin(caller.tenant_id, feed=8) as tx:
        if key is not None:
            use, earlier = tx.idempotency.take(
                principal=caller.subject, route=route, key=key, request_hash=digest
            )
            match use:
                case KeyUse.NEW:
                    pass
                case KeyUse.REPLAY if earlier is not None:
                    return respond(earlier, replayed=True)
                case KeyUse.REPLAY | KeyUse.MISMATCH:
                    raise ProblemError(
                        code=ApiCode.IDEMPOTENCY_KEY_REUSED,
                        detail="this Idempotency-Key was used for another request",
                    )
                case _:
                    assert_never(use)
        answer = act(tx, key)
        if key is not None:
            stored = answer.stored()
            tx.idempotency.store(principal=caller.subject, route=route, key=key, answer=stored)
    return respond(answer.first())
