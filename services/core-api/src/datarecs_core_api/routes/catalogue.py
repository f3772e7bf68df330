"""Objects of the catalogue: catalogs, namespaces, tables, views, connectors, and their names.

Captures write them; there is no route that does. Spec catalogue-storage 13.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_core.access.principal import Principal
from datarecs_core.captures.naming import split_name
from datarecs_core.catalog import layout
from datarecs_core.catalog.placement import Entity
from datarecs_core.catalog.records import Catalog, Connector, Namespace, Table, View
from datarecs_core_api.auth import Reader
from datarecs_core_api.catalogue_outputs import (
    CatalogueObjectOut,
    CataloguePage,
    CatalogueRecordOut,
)
from datarecs_core_api.catalogue_reading import (
    CatalogId,
    ConnectorId,
    IfNoneMatch,
    NamespaceId,
    Paged,
    Pages,
    Responses,
    TableId,
    ViewId,
    account_of,
    named_records,
    stored,
)
from datarecs_core_api.catalogue_records import etag_of, record_out, sees_values
from datarecs_core_api.conditional import json_answer, unless_known
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.pagination import next_link
from datarecs_core_api.problems import input_fault, invalid, not_found
from datarecs_core_api.published_types import QUALIFIED

router = APIRouter(prefix="/api/v1/catalog", tags=["catalogue"], route_class=GuardedRoute)
ONE: Responses = {200: {"model": CatalogueRecordOut}, 304: {}}
LIST: Responses = {200: {"model": CataloguePage}}
QualifiedName = Annotated[
    str, Query(**QUALIFIED, description='Parts joined by dots; quote a part with dots: `"a.b".c`.')
]


@router.get("/catalogs", operation_id="list_catalogs", responses=LIST)
def catalogs(caller: Reader, request: Request, use: Using, paging: Paged) -> Response:
    """Catalogs by name; a connection has one, with its name."""
    account = account_of(use, caller)
    pages = Pages(use=use, caller=caller, where={"list": "catalogs"}, paging=paging)
    return _list(pages, request, account, Catalog, layout.catalog_names(account.tenant))


@router.get("/catalogs/{catalog_id}", operation_id="get_catalog", responses=ONE)
def catalog(
    catalog_id: CatalogId, caller: Reader, use: Using, if_none_match: IfNoneMatch = None
) -> Response:
    """A catalog."""
    return _one(use, caller, Catalog, catalog_id, if_none_match)


@router.get("/catalogs/{catalog_id}/namespaces", operation_id="list_namespaces", responses=LIST)
def namespaces(
    catalog_id: CatalogId,
    caller: Reader,
    request: Request,
    use: Using,
    paging: Paged,
    prefix: QualifiedName | None = None,
) -> Response:
    """Namespaces of a catalog by path, or those below the namespace `prefix`."""
    account = account_of(use, caller)
    parent = stored(account, Catalog, catalog_id).record
    where = {"list": "namespaces", "catalog": catalog_id, "prefix": prefix or ""}
    below = layout.namespace_paths(account.tenant, parent.id)
    if prefix is not None:
        path = layout.namespace_by_path(account.tenant, parent.id, _parts(prefix, "prefix"))
        below = f"{path}/"
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    return _list(pages, request, account, Namespace, below)


@router.get("/namespaces/{namespace_id}", operation_id="get_namespace", responses=ONE)
def namespace(
    namespace_id: NamespaceId, caller: Reader, use: Using, if_none_match: IfNoneMatch = None
) -> Response:
    """A namespace."""
    return _one(use, caller, Namespace, namespace_id, if_none_match)


@router.get("/namespaces/{namespace_id}/tables", operation_id="list_tables", responses=LIST)
def tables(
    namespace_id: NamespaceId, caller: Reader, request: Request, use: Using, paging: Paged
) -> Response:
    """Tables of a namespace by name."""
    account = account_of(use, caller)
    parent = stored(account, Namespace, namespace_id).record
    where = {"list": "tables", "namespace": namespace_id}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    names = layout.table_names(account.tenant, parent.catalog_id, parent.id)
    return _list(pages, request, account, Table, names)


@router.get("/namespaces/{namespace_id}/views", operation_id="list_views", responses=LIST)
def views(
    namespace_id: NamespaceId, caller: Reader, request: Request, use: Using, paging: Paged
) -> Response:
    """Views of a namespace by name."""
    account = account_of(use, caller)
    parent = stored(account, Namespace, namespace_id).record
    where = {"list": "views", "namespace": namespace_id}
    pages = Pages(use=use, caller=caller, where=where, paging=paging)
    names = layout.view_names(account.tenant, parent.catalog_id, parent.id)
    return _list(pages, request, account, View, names)


@router.get("/tables/{table_id}", operation_id="get_table", responses=ONE)
def table(
    table_id: TableId, caller: Reader, use: Using, if_none_match: IfNoneMatch = None
) -> Response:
    """A table with its columns and where it comes from."""
    return _one(use, caller, Table, table_id, if_none_match)


@router.get("/views/{view_id}", operation_id="get_view", responses=ONE)
def view(
    view_id: ViewId, caller: Reader, use: Using, if_none_match: IfNoneMatch = None
) -> Response:
    """A view with its definition."""
    return _one(use, caller, View, view_id, if_none_match)


@router.get("/connectors", operation_id="list_connectors", responses=LIST)
def connectors(caller: Reader, request: Request, use: Using, paging: Paged) -> Response:
    """Captured connections by name."""
    account = account_of(use, caller)
    pages = Pages(use=use, caller=caller, where={"list": "connectors"}, paging=paging)
    return _list(pages, request, account, Connector, layout.connector_names(account.tenant))


@router.get("/connectors/{connector_id}", operation_id="get_connector", responses=ONE)
def connector(
    connector_id: ConnectorId, caller: Reader, use: Using, if_none_match: IfNoneMatch = None
) -> Response:
    """A captured connection; its id is the uid of the connection."""
    return _one(use, caller, Connector, connector_id, if_none_match)


@router.get("/resolve", operation_id="get_catalogue_object", responses={404: {}})
def resolve(name: QualifiedName, caller: Reader, use: Using) -> CatalogueObjectOut:
    """The object with a name such as `catalog.namespace.table`."""
    account = account_of(use, caller)
    parts = _parts(name, "name")
    resolved = _resolved(account, parts)
    if resolved is None:
        raise not_found("object of the catalogue")
    return resolved


def _resolved(account: CatalogueAccount, parts: tuple[str, ...]) -> CatalogueObjectOut | None:
    """A table or view before a namespace of the same name."""
    tenant, pointers = account.tenant, account.pointers
    catalog_name = pointers.get(layout.catalog_by_name(tenant, parts[0]))
    catalog_id = None if catalog_name is None else catalog_name.resource_id
    if catalog_id is None:
        return None
    if len(parts) == 1:
        return CatalogueObjectOut(kind="catalog", id=catalog_id)
    paths = {
        path: layout.namespace_by_path(tenant, catalog_id, path)
        for path in (parts[1:-1], parts[1:])
        if path
    }
    present = pointers.get_many(paths.values())
    outer = present.get(paths.get(parts[1:-1], ""))
    relation = None
    if outer is not None and outer.resource_id is not None:
        relation = _relation(account, catalog_id, outer.resource_id, parts[-1])
    inner = present.get(paths[parts[1:]])
    if relation is None and inner is not None and inner.resource_id is not None:
        return CatalogueObjectOut(kind="namespace", id=inner.resource_id)
    return relation


def _relation(
    account: CatalogueAccount, catalog_id: UUID, namespace_id: UUID, name: str
) -> CatalogueObjectOut | None:
    where = (account.tenant, catalog_id, namespace_id, name)
    table, view = layout.table_by_name(*where), layout.view_by_name(*where)
    present = account.pointers.get_many([table, view])
    ids = {key: pointer.resource_id for key, pointer in present.items()}
    if (table_id := ids.get(table)) is not None:
        return CatalogueObjectOut(kind="table", id=table_id)
    if (view_id := ids.get(view)) is not None:
        return CatalogueObjectOut(kind="view", id=view_id)
    return None


def _parts(text: str, parameter: str) -> tuple[str, ...]:
    """Raises ProblemError (422) for a text that is no name."""
    parts = split_name(text)
    if parts is None:
        fault = input_fault(
            f"/query/{parameter}", 'not a name such as catalog.namespace.table or "a.b".c'
        )
        raise invalid("a parameter is not allowed", fault)
    return parts


def _one(
    use: Ports, caller: Principal, kind: type[Entity], text: str, if_none_match: str | None
) -> Response:
    one = stored(account_of(use, caller), kind, text)
    values = sees_values(caller)
    return unless_known(
        record_out(one.record, version=one.version, blob_key=one.blob_key, values=values),
        etag=etag_of(one.blob_key, one.version, values=values),
        if_none_match=if_none_match,
    )


def _list(
    pages: Pages, request: Request, account: CatalogueAccount, kind: type[Entity], prefix: str
) -> Response:
    page = pages.pointers(account, prefix)
    answer = CataloguePage(
        items=named_records(account, kind, page.pointers, pages.caller),
        next=pages.following(page.token),
    )
    return json_answer(answer, headers=next_link(request, answer.next))
