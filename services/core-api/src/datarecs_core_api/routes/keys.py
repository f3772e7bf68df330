"""API keys: made, listed and revoked by those who hold them; the secret is shown once."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import ConfigDict, Field

from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_core.access.permissions import KEY_SCOPES, Permission
from datarecs_core.access.principal import Principal
from datarecs_core.access.tokens import ID_BYTES, SECRET_BYTES, new_key
from datarecs_core.errors.security import SecurityCode
from datarecs_core.values import instant_text
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import AnyPrincipal, authenticator
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import WHOLE, In, JsonBody, Sent
from datarecs_core_api.outputs import KeyOnce, KeyOut, Page
from datarecs_core_api.problems import ProblemError, input_fault, invalid, not_found
from datarecs_core_api.published_types import KeyIdPath
from datarecs_core_api.transactions import repeated
from datarecs_core_api.views import key_view

DEFAULT_LIFETIME = timedelta(days=90)
router = APIRouter(prefix="/api/v1/keys", tags=["keys"], route_class=GuardedRoute)
Scope = Annotated[str, Field(json_schema_extra={"enum": sorted(KEY_SCOPES)})]


class KeyIn(In):
    """A key to be made: with at most the scopes and the lifetime of the key that makes it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "nightly-ci", "scopes": ["read", "run.trigger"]}]}
    )

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9-]*$")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=64)] | None = None
    """Permissions; all of the maker's when absent."""
    expires_days: Annotated[int, Field(ge=1, le=366), WHOLE] | None = None
    """When absent 90 days, or until the maker expires if that is earlier."""


@router.post(
    "",
    status_code=201,
    operation_id="create_key",
    responses={201: {"model": KeyOnce | KeyOut}, 403: {}, 409: {}},
)
def create_key(
    caller: AnyPrincipal,
    request: Request,
    body: Annotated[Sent[KeyIn], Depends(JsonBody(KeyIn))],
    use: Using,
) -> Response:
    """Create a key; `key` in this response is shown once, also with a repeated Idempotency-Key.

    It has a separate subject and the owner of the key that creates it, and is revoked with that
    key.
    """
    wanted = body.value
    scopes = frozenset(caller.permissions if wanted.scopes is None else wanted.scopes)
    _check_known(wanted)
    if beyond := scopes - caller.permissions:
        raise authenticator(request).refused(request, caller, min(beyond))

    def act(tx: Transaction, _key: str | None) -> Answer:
        authenticator(request).limits.admit_new_key(caller)
        maker = _live_maker(tx, caller)
        made = new_key(
            id_bytes=use.random_bytes(ID_BYTES), secret_bytes=use.random_bytes(SECRET_BYTES)
        )
        key = ApiKey(
            key_id=made.key_id,
            tenant_id=caller.tenant_id,
            name=wanted.name,
            owner=maker.owner,
            secret_sha256=made.secret_sha256,
            permissions=scopes,
            created_at=tx.now,
            expires_at=_expiry(wanted, maker, now=tx.now),
            parent_id=maker.key_id,
        )
        tx.api_keys.add(key)
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="key.create",
                resource_kind="ApiKey",
                resource_uid=key.key_id,
            )
        )
        shown = key_view(key)
        return Answer(status=201, body=KeyOnce(**dict(shown), key=made.text), replay_body=shown)

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _live_maker(tx: Transaction, caller: Principal) -> ApiKey:
    """The caller's key, locked: a key that is being revoked makes no other one.

    Raises:
        ProblemError: 401, it was revoked since the request began.
    """
    maker = tx.api_keys.for_update(caller.key_id or "")
    if maker is None or maker.revoked_at is not None:
        raise ProblemError(
            code=SecurityCode.UNAUTHENTICATED, detail="the key of this request was revoked"
        )
    return maker


def _expiry(wanted: KeyIn, maker: ApiKey, *, now: datetime) -> datetime:
    """Raises ProblemError (422): later than the expiry of the key that creates it."""
    if wanted.expires_days is None:
        return min(now + DEFAULT_LIFETIME, maker.expires_at)
    expires_at = now + timedelta(days=wanted.expires_days)
    if expires_at > maker.expires_at:
        message = f"the key of this request expires at {instant_text(maker.expires_at)}"
        raise invalid(
            "a key must not expire later than the key that creates it",
            input_fault("/expires_days", message),
        )
    return expires_at


def _check_known(wanted: KeyIn) -> None:
    """Raises ProblemError (422): a scope that no key can have."""
    faults = [
        input_fault(f"/scopes/{index}", "not a permission of API keys")
        for index, scope in enumerate(wanted.scopes or ())
        if scope not in KEY_SCOPES
    ]
    if faults:
        raise invalid("the scopes have faults", *faults)


@router.get("", operation_id="list_keys", responses={403: {}})
def list_keys(
    caller: AnyPrincipal,
    request: Request,
    use: Using,
    everybody: Annotated[bool, Query(alias="all", description="All of the tenant.")] = False,  # noqa: FBT002  a query parameter
) -> Page[KeyOut]:
    """The caller's key and the keys made with it; `all` of the tenant needs key.manage."""
    if everybody and not caller.may(Permission.KEY_MANAGE):
        raise authenticator(request).refused(request, caller, Permission.KEY_MANAGE)
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        keys = tx.api_keys.all() if everybody else tx.api_keys.family(caller.key_id or "")
    return Page(items=[key_view(key) for key in keys])


@router.delete("/{key_id}", operation_id="revoke_key", responses={200: {"model": KeyOut}})
def revoke_key(key_id: KeyIdPath, caller: AnyPrincipal, request: Request, use: Using) -> Response:
    """Revoke a key and every key made with it, at once; safe to repeat.

    The caller's key and the keys made with it need no permission, all others key.manage.
    """
    may_manage = caller.may(Permission.KEY_MANAGE)

    def work(tx: Transaction) -> KeyOut:
        visible = tx.api_keys.all() if may_manage else tx.api_keys.family(caller.key_id or "")
        if not any(key.key_id == key_id for key in visible):
            raise not_found("key")
        for revoked in sorted(tx.api_keys.revoke(key_id), key=lambda one: (one != key_id, one)):
            tx.audit.append(
                AuditEntry(
                    **asker(request, caller),
                    action="key.revoke",
                    resource_kind="ApiKey",
                    resource_uid=revoked,
                    detail=None if revoked == key_id else {"revoked_with": key_id},
                )
            )
        return next(key_view(key) for key in tx.api_keys.family(key_id) if key.key_id == key_id)

    return json_answer(repeated(use.unit, caller.tenant_id, work))
