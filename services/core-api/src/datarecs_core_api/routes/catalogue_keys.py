"""The catalogue as it is stored: pointers below a prefix, one record, and what is damaged.

For people who look for a cause; programs read the objects.
"""

import json
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.verifying import Verification
from datarecs_core.catalog import layout
from datarecs_core.catalog.placement import BY_ID
from datarecs_core.catalog.pointers import Pointer
from datarecs_core.catalog.records import decode_any
from datarecs_core.errors.catalogue import PointerRefusedError
from datarecs_core.errors.storage import BlobKeyRefusedError, BlobNotFoundError
from datarecs_core_api.auth import Reader
from datarecs_core_api.catalogue_outputs import (
    CatalogueEntryOut,
    CatalogueFaultOut,
    CatalogueFaultPage,
    CataloguePointerOut,
)
from datarecs_core_api.catalogue_reading import Paged, Pages, account_of
from datarecs_core_api.catalogue_records import note_values, record_json, sees_values
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.outputs import Page
from datarecs_core_api.pagination import next_link
from datarecs_core_api.problems import input_fault, invalid, not_found

router = APIRouter(prefix="/api/v1/catalog", tags=["catalogue"], route_class=GuardedRoute)
FAMILIES = ("account", "catalogs", "namespaces", "tables", "views", "connectors")
"""What is below an account and belongs to the catalogue; runs have routes of their own."""
Key = Annotated[
    str,
    Query(
        min_length=1,
        max_length=layout.MAX_KEY_BYTES + 1,
        description="A pointer or a blob; without `/accounts/…` it is one of the tenant.",
    ),
]
Prefix = Annotated[
    str,
    Query(
        max_length=layout.MAX_KEY_BYTES + 1,
        description="Such as `tables/`; without `/accounts/…` it is one of the tenant.",
    ),
]


@router.get(
    "/pointers",
    operation_id="list_catalogue_pointers",
    responses={200: {"model": Page[CataloguePointerOut]}},
)
def pointers(
    caller: Reader, request: Request, use: Using, paging: Paged, prefix: Prefix = ""
) -> Response:
    """Pointers below a prefix, in byte order."""
    account = account_of(use, caller)
    where = {"list": "pointers", "prefix": prefix}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    try:
        page = pages.pointers(account, _full(account, prefix).rstrip("/") + "/")
    except PointerRefusedError as cause:
        fault = input_fault("/query/prefix", f"not a prefix of the catalogue: {cause.rule}")
        raise invalid("a parameter is not allowed", fault) from cause
    answer = Page[CataloguePointerOut](
        items=[_pointer_out(one) for one in page.pointers], next=pages.following(page.token)
    )
    return json_answer(answer, headers=next_link(request, answer.next))


@router.get("/record", operation_id="get_catalogue_record", responses={404: {}})
def record(key: Key, caller: Reader, request: Request, use: Using) -> CatalogueEntryOut:
    """A pointer with the record that it names, or the record of a blob.

    A name is followed to its object.
    """
    account = account_of(use, caller)
    pointer = None
    blob_key: str | None = key
    if not key.startswith("accounts/"):
        pointer = _pointer(account, _full(account, key))
        blob_key = _blob_key(account, pointer)
    entry = None if pointer is None else _pointer_out(pointer)
    payload = None if pointer is None or pointer.payload is None else json.loads(pointer.payload)
    if blob_key is None:
        return CatalogueEntryOut(pointer=entry, payload=payload, kind=None, record=None)
    content = decode_any(_blob(account, blob_key))
    note_values(use, caller, request, content)
    return CatalogueEntryOut(
        pointer=entry,
        payload=payload,
        kind=content.kind,
        record=record_json(content, values=sees_values(caller)),
    )


@router.get(
    "/faults",
    operation_id="list_catalogue_faults",
    responses={200: {"model": CatalogueFaultPage}, 404: {}},
)
def faults(
    caller: Reader,
    request: Request,
    use: Using,
    paging: Paged,
    table_id: Annotated[UUID | None, Query(description="Only pointers of this table.")] = None,
) -> Response:
    """Verify the next pointers, `limit` of them: read every record and index that they name."""
    account = account_of(use, caller)
    where = {"list": "faults", "table": str(table_id or "")}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    prefix = f"/{layout.account_prefix(account.tenant)}"
    first: list[Pointer] = []
    if table_id is not None:
        prefix = layout.table_pointers(account.tenant, table_id)
        first = [_pointer(account, layout.table_by_id(account.tenant, table_id))]
    page = pages.pointers(account, prefix)
    checked = [*(first if paging.cursor is None else ()), *page.pointers]
    answer = CatalogueFaultPage(
        items=[
            CatalogueFaultOut(
                pointer=one.pointer, blob_key=one.blob_key, code=one.code, message=one.message
            )
            for one in Verification(account=account).faults(checked)
        ],
        next=pages.following(page.token),
        checked=len(checked),
    )
    return json_answer(answer, headers=next_link(request, answer.next))


def _full(account: CatalogueAccount, key: str) -> str:
    """The key of a pointer; a relative one is below the caller's account."""
    if key.startswith("/"):
        return key
    return f"/{layout.account_prefix(account.tenant)}{key}"


def _pointer(account: CatalogueAccount, key: str) -> Pointer:
    """Raises ProblemError (404), also for a key of another account."""
    try:
        pointer = account.pointers.get(key)
    except PointerRefusedError as cause:
        raise not_found("key of the catalogue") from cause
    if pointer is None:
        raise not_found("key of the catalogue")
    return pointer


def _blob_key(account: CatalogueAccount, pointer: Pointer) -> str | None:
    """Of the pointer, or of the object that it is a name of; None: it has no record."""
    if pointer.blob_key or pointer.payload or pointer.resource_id is None:
        return pointer.blob_key
    keys = [by_id(account.tenant, pointer.resource_id) for by_id in BY_ID.values()]
    objects = account.pointers.get_many(keys).values()
    return next((one.blob_key for one in objects if one.resource_id == pointer.resource_id), None)


def _blob(account: CatalogueAccount, key: str) -> bytes:
    """Raises ProblemError (404), also for files that are no records of the catalogue."""
    family = key.removeprefix(layout.account_prefix(account.tenant)).partition("/")[0]
    if family not in FAMILIES or not key.endswith(".pb"):
        raise not_found("record of the catalogue")
    try:
        return account.blobs.get(key)
    except (BlobNotFoundError, BlobKeyRefusedError) as cause:
        raise not_found("record of the catalogue") from cause


def _pointer_out(pointer: Pointer) -> CataloguePointerOut:
    return CataloguePointerOut(
        key=pointer.key,
        pointer_version=pointer.version,
        blob_key=pointer.blob_key,
        resource_id=pointer.resource_id,
        expires_at=pointer.expires_at,
    )
