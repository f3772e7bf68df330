"""Opaque page cursors: version, sort key, filter and tenant, signed; good for 24 hours.

A cursor of another filter, of another tenant, altered or too old is refused alike (DR4006).
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Query, Request

from datarecs_core.errors.api import ApiCode
from datarecs_core.hashing import canonical_json
from datarecs_core.values import TenantId, instant_text
from datarecs_core_api.problems import ProblemError

LIFETIME = timedelta(hours=24)
MAX_LIMIT, DEFAULT_LIMIT = 200, 50
_MAC_BYTES = 16
MAX_CURSOR = 2048
Cursor = Annotated[
    str,
    Query(
        description="`next` of the previous page; valid for 24 hours.",
        # a longer one is refused as any other that this list never gave (DR4006)
        json_schema_extra={"minLength": 1, "maxLength": MAX_CURSOR},
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a list continues: strictly before this (created_at, id)."""

    created_at: datetime
    id: UUID


def invalid_cursor() -> ProblemError:
    """400 DR4006, the same for every cursor that cannot be used."""
    return ProblemError(
        code=ApiCode.INVALID_CURSOR, detail="the cursor does not belong to this list"
    )


@dataclass(frozen=True, slots=True)
class Cursors:
    """Makes and reads cursors under one key of the deployment."""

    key: bytes

    def write(
        self, position: Position, *, tenant: TenantId, where: Mapping[str, str], now: datetime
    ) -> str:
        fields = {"at": instant_text(position.created_at), "id": str(position.id)}
        return self._sealed({"v": 1, **fields}, tenant=tenant, where=where, now=now)

    def write_place(
        self, place: str, *, tenant: TenantId, where: Mapping[str, str], now: datetime
    ) -> str:
        """The same for a list whose positions are texts."""
        return self._sealed({"v": 2, "place": place}, tenant=tenant, where=where, now=now)

    def read(
        self, text: str, *, tenant: TenantId, where: Mapping[str, str], now: datetime
    ) -> Position:
        """Raises ProblemError (400 DR4006) for a cursor that is not valid for this list."""
        fields = self._opened(text, tenant=tenant, where=where, now=now)
        return Position(created_at=datetime.fromisoformat(fields["at"]), id=UUID(fields["id"]))

    def read_place(
        self, text: str, *, tenant: TenantId, where: Mapping[str, str], now: datetime
    ) -> str:
        """Raises ProblemError (400 DR4006) for a cursor that is not valid for this list."""
        return self._opened(text, tenant=tenant, where=where, now=now)["place"]

    def _sealed(
        self,
        fields: Mapping[str, str | int],
        *,
        tenant: TenantId,
        where: Mapping[str, str],
        now: datetime,
    ) -> str:
        body = canonical_json({**fields, "made": instant_text(now)})
        mac = self._mac(body, tenant=tenant, where=where)
        return base64.urlsafe_b64encode(mac + body).decode().rstrip("=")

    def _opened(
        self, text: str, *, tenant: TenantId, where: Mapping[str, str], now: datetime
    ) -> Mapping[str, str]:
        try:
            raw = base64.urlsafe_b64decode(text[:MAX_CURSOR] + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError) as cause:
            raise invalid_cursor() from cause
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body, tenant=tenant, where=where)):
            raise invalid_cursor()
        fields: Mapping[str, str] = json.loads(body)
        if now - datetime.fromisoformat(fields["made"]) > LIFETIME:
            raise invalid_cursor()
        return fields

    def _mac(self, body: bytes, *, tenant: TenantId, where: Mapping[str, str]) -> bytes:
        scope = canonical_json({"tenant": str(tenant), "where": dict(where)})
        return hmac.new(self.key, scope + b"\n" + body, hashlib.sha256).digest()[:_MAC_BYTES]


def next_link(request: Request, cursor: str | None) -> dict[str, str]:
    """`Link: rel="next"` as a relative reference, or nothing after the last page."""
    if cursor is None:
        return {}
    pairs = [pair for pair in request.query_params.multi_items() if pair[0] != "cursor"]
    query = urlencode([*pairs, ("cursor", cursor)])
    return {"Link": f'<{request.url.path}?{query}>; rel="next"'}
