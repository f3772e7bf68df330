"""What the routes of the catalogue share: stores of the caller, objects of paths, pages.

Reading holds no database connection while blobs are fetched: each pointer read is a transaction of
its own.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Depends, Header, Path, Query

from datarecs_application.catalogue.account import CatalogueAccount, require_blob
from datarecs_application.catalogue.entities import Entities, Stored
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_core.access.principal import Principal
from datarecs_core.catalog import layout
from datarecs_core.catalog.generations import ActiveGeneration
from datarecs_core.catalog.placement import BY_ID, Entity
from datarecs_core.catalog.pointers import Pointer, PointerPage
from datarecs_core.catalog.protobuf import Record
from datarecs_core_api.catalogue_outputs import CatalogueRecordOut
from datarecs_core_api.catalogue_records import record_out, sees_values
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.inputs import canonical_uuid
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, invalid_cursor
from datarecs_core_api.problems import not_found

E = TypeVar("E", bound=Entity)
_UUID = {"format": "uuid", "minLength": 36, "maxLength": 36}


def _id_path(what: str) -> object:
    examples = ["0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c07"]
    return Path(
        description=f"Id of the {what}, in lower case.",
        json_schema_extra={**_UUID, "examples": examples},
    )


CatalogId = Annotated[str, _id_path("catalog")]
NamespaceId = Annotated[str, _id_path("namespace")]
TableId = Annotated[str, _id_path("table")]
ViewId = Annotated[str, _id_path("view")]
ConnectorId = Annotated[str, _id_path("connector")]
SnapshotId = Annotated[
    str,
    Path(
        description="Id of the snapshot in the catalogue.",
        json_schema_extra={"pattern": "^[0-9]{1,19}$", "examples": ["1"]},
    ),
]
TargetId = Annotated[
    str,
    Path(
        description="`table`, `column-…` or `file-…`.",
        json_schema_extra={"minLength": 1, "maxLength": 1024, "examples": ["table"]},
    ),
]
Responses = dict[int | str, dict[str, Any]]
"""Published answers of a route."""
IfNoneMatch = Annotated[str | None, Header()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """Which page of a list is wanted."""

    limit: int
    cursor: str | None


def paging(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    cursor: Cursor | None = None,
) -> Paging:
    return Paging(limit=limit, cursor=cursor)


Paged = Annotated[Paging, Depends(paging)]


def account_of(use: Ports, caller: Principal) -> CatalogueAccount:
    """The stores of the caller's tenant."""
    return CatalogueAccount(
        tenant=caller.tenant_id,
        pointers=PointerStore(unit=use.unit, tenant=caller.tenant_id),
        blobs=use.blobs.of(caller.tenant_id),
        clock=use.clock,
    )


def uuid_of(text: str, what: str) -> UUID:
    """Raises ProblemError (404) for a text that is no id."""
    uuid = canonical_uuid(text)
    if uuid is None:
        raise not_found(what)
    return uuid


def stored(account: CatalogueAccount, kind: type[E], text: str) -> Stored[E]:
    """Raises ProblemError (404), also for another tenant's."""
    one = Entities(account, kind).get(uuid_of(text, kind.kind.lower()))
    if one is None:
        raise not_found(kind.kind.lower())
    return one


def snapshot_pointer(account: CatalogueAccount, table: str, snapshot: str) -> Pointer:
    """Raises ProblemError (404) if the table has no such snapshot."""
    is_number = snapshot.isascii() and snapshot.isdigit() and str(int(snapshot)) == snapshot
    if not is_number or int(snapshot) > layout.MAX_NUMBER:
        raise not_found("snapshot")
    key = layout.snapshot_by_id(account.tenant, uuid_of(table, "snapshot"), int(snapshot))
    pointer = account.pointers.get(key)
    if pointer is None:
        raise not_found("snapshot")
    return pointer


def active_of(account: CatalogueAccount, table: str, snapshot: str) -> ActiveGeneration:
    """Raises ProblemError (404) unless the snapshot is finalised."""
    snapshot_pointer(account, table, snapshot)
    active = Generations(account).active(UUID(table), int(snapshot))
    if active is None:
        raise not_found("statistics: the snapshot is not finalised")
    return active


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of one list for one caller."""

    use: Ports
    caller: Principal
    where: Mapping[str, str]
    """What the list is of: a cursor is valid only there."""
    paging: Paging

    def place(self) -> Mapping[str, str]:
        """Where the page begins, and what it is bound to; empty for the first one."""
        if self.paging.cursor is None:
            return {}
        text = self.use.cursors.read_place(
            self.paging.cursor,
            tenant=self.caller.tenant_id,
            where=self.where,
            now=self.use.clock.now(),
        )
        place: Mapping[str, str] = json.loads(text)
        return place

    def following(self, token: str | None, **bound: str) -> str | None:
        """The cursor of the next page, if there is one."""
        if token is None:
            return None
        return self.use.cursors.write_place(
            json.dumps({**bound, "token": token}),
            tenant=self.caller.tenant_id,
            where=self.where,
            now=self.use.clock.now(),
        )

    def pointers(self, account: CatalogueAccount, prefix: str) -> PointerPage:
        token = self.place().get("token")
        return account.pointers.list(prefix, limit=self.paging.limit, token=token)


def bound_generation(
    account: CatalogueAccount, pages: Pages, table: str, snapshot: str
) -> ActiveGeneration:
    """The generation of the first page, also after another one was published.

    Raises:
        ProblemError: 404, the snapshot is not finalised; 400, the generation was removed.
    """
    active = active_of(account, table, snapshot)
    generation = pages.place().get("generation", active.generation)
    if generation == active.generation:
        return active
    past = Generations(account).published(active.table_id, active.snapshot_id, generation)
    if past is None:
        raise invalid_cursor()
    return past


def named_records(
    account: CatalogueAccount,
    kind: type[E],
    names: Sequence[Pointer],
    caller: Principal,
) -> list[CatalogueRecordOut]:
    """The objects of these names, in their order; one that is deleted meanwhile is left out."""
    by_id = BY_ID[kind.kind]
    keys = [by_id(account.tenant, one.resource_id) for one in names if one.resource_id is not None]
    present = account.pointers.get_many(keys)
    return [read_record(account, kind, present[key], caller) for key in keys if key in present]


def read_record(
    account: CatalogueAccount, kind: type[Record], pointer: Pointer, caller: Principal
) -> CatalogueRecordOut:
    blob_key = require_blob(pointer)
    return record_out(
        account.read(kind, blob_key),
        version=pointer.version,
        blob_key=blob_key,
        values=sees_values(caller),
    )
