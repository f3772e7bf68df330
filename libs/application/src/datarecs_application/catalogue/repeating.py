"""One effect per key of a request: the same request again has the same result.

The record of the key and the effect commit in one transaction, so nobody sees a half-done one, and
a failure leaves the key unused. Spec catalogue-storage 7, rule 9.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import MAX_PAYLOAD_BYTES, Applied, Pointer, Upsert
from datarecs_core.errors.catalogue import CatalogueBusyError, ContentConflictError
from datarecs_core.hashing import canonical_json
from datarecs_core.values import TenantId

LIFETIME = timedelta(hours=24)
MAX_RESULT_BYTES = MAX_PAYLOAD_BYTES // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What may be sent again."""

    operation: str
    key: str
    """Chosen by the sender; empty: the request is carried out each time."""
    sha256: str
    """Of the content of the request."""


def carry_out_once(
    unit: UnitOfWork, tenant: TenantId, request: Request, effect: Callable[[Transaction], bytes]
) -> bytes:
    """The result of the request: of the effect, or of the same request before.

    Args:
        unit: of the stores that the effect changes.
        tenant: their account.
        request: what was sent.
        effect: changes the stores inside the transaction; its result has at most 4 KiB.

    Raises:
        ContentConflictError: the key belongs to another request.
        CatalogueBusyError: the same request is being carried out.
    """
    with unit.begin(tenant) as tx:
        if not request.key:
            return effect(tx)
        key = layout.idempotency(tenant, request.operation, request.key)
        before = tx.pointers.get(key)
        if before is not None:
            return _result_of(before, request)
        result = effect(tx)
        if len(result) > MAX_RESULT_BYTES:
            raise ValueError(f"a result of {len(result)} bytes is longer than {MAX_RESULT_BYTES}")
        content = {"request": request.sha256, "result": base64.b64encode(result).decode()}
        pointer = Pointer(key=key, payload=canonical_json(content), expires_at=tx.now + LIFETIME)
        # After the effect and in its transaction: who comes second is rolled back.
        if not isinstance(tx.pointers.batch([Upsert(next=pointer, expected=0)]), Applied):
            raise CatalogueBusyError(key=key)
        return result


def _result_of(before: Pointer, request: Request) -> bytes:
    content = json.loads(before.payload or b"{}")
    if content["request"] != request.sha256:
        raise ContentConflictError(key=before.key)
    return base64.b64decode(content["result"])
