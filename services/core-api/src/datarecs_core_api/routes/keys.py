"""API keys: made, listed and revoked by those who hold them; the secret is shown once."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from datarecs_application.ports.state import ApiKey, AuditEntry
from datarecs_core.access.permissions import Permission
from datarecs_core.access.tokens import new_key
from datarecs_core.errors.security import SecurityCode
from datarecs_core.values import instant_text
from datarecs_core_api.auth import AnyPrincipal
from datarecs_core_api.dependencies import Using
from datarecs_core_api.inputs import In, JsonBytes, parsed
from datarecs_core_api.problems import ProblemError, not_found

router = APIRouter(prefix="/api/v1/keys", tags=["keys"])
_ID_BYTES, _SECRET_BYTES = 9, 32


class KeyIn(In):
    """A key to be made; its scopes are at most those of the key that makes it."""

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9-]*$")]
    scopes: Annotated[list[str], Field(max_length=64)] | None = None
    expires_days: Annotated[int, Field(ge=1, le=366)] = 90


def _view(key: ApiKey) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "subject": key.subject,
        "scopes": sorted(key.permissions),
        "created_at": instant_text(key.created_at),
        "expires_at": instant_text(key.expires_at),
        "revoked_at": None if key.revoked_at is None else instant_text(key.revoked_at),
    }


@router.post("", status_code=201, operation_id="create_key")
def create_key(body: JsonBytes, caller: AnyPrincipal, use: Using) -> dict[str, object]:
    """Make a key for the caller; `key` in the answer is shown this once."""
    wanted = parsed(KeyIn, body)
    scopes = frozenset(caller.permissions if wanted.scopes is None else wanted.scopes)
    if not scopes <= caller.permissions:
        raise ProblemError(
            code=SecurityCode.FORBIDDEN,
            detail="a key cannot hold more than its maker's permissions",
        )
    made = new_key(
        id_bytes=use.random_bytes(_ID_BYTES), secret_bytes=use.random_bytes(_SECRET_BYTES)
    )
    # No Idempotency-Key here: the stored answer would have to hold the secret.
    with use.unit.begin(caller.tenant_id) as tx:
        key = ApiKey(
            key_id=made.key_id,
            tenant_id=caller.tenant_id,
            name=wanted.name,
            subject=caller.subject,
            secret_sha256=made.secret_sha256,
            permissions=scopes,
            created_at=tx.now,
            expires_at=tx.now + timedelta(days=wanted.expires_days),
        )
        tx.api_keys.add(key)
        tx.audit.append(
            AuditEntry(
                actor=caller.subject, actor_kind="key", action="key.create", resource_uid=key.key_id
            )
        )
    return {**_view(key), "key": made.text}


@router.get("", operation_id="list_keys")
def list_keys(caller: AnyPrincipal, use: Using, *, everybody: bool = False) -> dict[str, object]:
    """The caller's keys; with `everybody` all of the tenant (needs key.manage)."""
    if everybody and not caller.may(Permission.KEY_MANAGE):
        raise ProblemError(
            code=SecurityCode.FORBIDDEN, detail="this key lacks the permission key.manage"
        )
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        keys = tx.api_keys.all(subject=None if everybody else caller.subject)
    return {"items": [_view(key) for key in keys], "next": None}


@router.delete("/{key_id}", operation_id="revoke_key")
def revoke_key(key_id: str, caller: AnyPrincipal, use: Using) -> dict[str, object]:
    """Revoke a key: at once in this process, within ten seconds everywhere."""
    with use.unit.begin(caller.tenant_id) as tx:
        mine = {key.key_id for key in tx.api_keys.all(subject=caller.subject)}
        allowed = key_id in mine or caller.may(Permission.KEY_MANAGE)
        if not allowed or not tx.api_keys.revoke(key_id):
            raise not_found("key")
        tx.audit.append(
            AuditEntry(
                actor=caller.subject, actor_kind="key", action="key.revoke", resource_uid=key_id
            )
        )
    return {"key_id": key_id, "revoked": True}
