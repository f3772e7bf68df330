"""Where an object of the catalogue stands: its pointers, its parents, the markers it changes.

Separate from the repositories, which change pointers of every kind by the same steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import CheckPresent
from datarecs_core.catalog.records import Account, Catalog, Connector, Namespace, Table, View
from datarecs_core.values import TenantId

Entity = Account | Catalog | Namespace | Table | View | Connector


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    resource_id: UUID
    by_id: str
    names: tuple[str, ...] = ()
    """Pointers to the id. A claim that two kinds share comes first."""
    parents: tuple[CheckPresent, ...] = ()
    """What must exist."""
    markers: tuple[str, ...] = ()
    """Markers of the parents, raised when a child comes or goes."""
    children_marker: str | None = None
    """The marker of its children."""
    children: tuple[str, ...] = ()
    """Prefixes of its children."""
    blob_key: Callable[[str], str]
    """Key of the record by its SHA-256."""


BY_ID: Mapping[str, Callable[[TenantId, UUID], str]] = {
    Account.kind: lambda tenant, _: layout.account_pointer(tenant),
    Catalog.kind: layout.catalog_by_id,
    Connector.kind: layout.connector_by_id,
    Namespace.kind: layout.namespace_by_id,
    Table.kind: layout.table_by_id,
    View.kind: layout.view_by_id,
}
"""The pointer of an object, by the kind of its record."""


def placement(account: TenantId, entity: Entity) -> Placement:
    match entity:
        case Account():
            return _account(account, entity)
        case Catalog():
            return _catalog(account, entity)
        case Namespace():
            return _namespace(account, entity)
        case Table() | View():
            return _relation(account, entity)
        case Connector():
            return _connector(account, entity)


def _account(account: TenantId, entity: Account) -> Placement:
    return Placement(
        resource_id=entity.id,
        by_id=layout.account_pointer(account),
        blob_key=lambda sha: layout.account_blob(account, sha),
    )


def _catalog(account: TenantId, entity: Catalog) -> Placement:
    return Placement(
        resource_id=entity.id,
        by_id=layout.catalog_by_id(account, entity.id),
        names=(layout.catalog_by_name(account, entity.name),),
        parents=(CheckPresent(key=layout.account_pointer(account)),),
        children_marker=layout.catalog_children(account, entity.id),
        children=(layout.namespace_paths(account, entity.id),),
        blob_key=lambda sha: layout.catalog_blob(account, entity.id, sha),
    )


def _namespace(account: TenantId, entity: Namespace) -> Placement:
    by_path = layout.namespace_by_path(account, entity.catalog_id, entity.path)
    parents = [CheckPresent(key=layout.catalog_by_id(account, entity.catalog_id))]
    markers = [layout.catalog_children(account, entity.catalog_id)]
    if len(entity.path) > 1:
        parent = layout.namespace_by_path(account, entity.catalog_id, entity.path[:-1])
        parents.append(CheckPresent(key=parent, resource_id=entity.parent_id))
        if entity.parent_id is not None:
            markers.append(layout.namespace_children(account, entity.parent_id))
    return Placement(
        resource_id=entity.id,
        by_id=layout.namespace_by_id(account, entity.id),
        names=(by_path,),
        parents=tuple(parents),
        markers=tuple(markers),
        children_marker=layout.namespace_children(account, entity.id),
        children=(layout.relations(account, entity.catalog_id, entity.id), f"{by_path}/"),
        blob_key=lambda sha: layout.namespace_blob(account, entity.id, sha),
    )


def _relation(account: TenantId, entity: Table | View) -> Placement:
    where = (account, entity.catalog_id, entity.namespace_id, entity.name)
    is_table = isinstance(entity, Table)
    by_name = layout.table_by_name if is_table else layout.view_by_name
    blob = layout.table_blob if is_table else layout.view_blob
    return Placement(
        resource_id=entity.id,
        by_id=BY_ID[entity.kind](account, entity.id),
        names=(layout.relation_by_name(*where), by_name(*where)),
        parents=(CheckPresent(key=layout.namespace_by_id(account, entity.namespace_id)),),
        markers=(layout.namespace_children(account, entity.namespace_id),),
        blob_key=lambda sha: blob(account, entity.id, sha),
    )


def _connector(account: TenantId, entity: Connector) -> Placement:
    return Placement(
        resource_id=entity.id,
        by_id=layout.connector_by_id(account, entity.id),
        names=(layout.connector_by_name(account, entity.name),),
        parents=(CheckPresent(key=layout.account_pointer(account)),),
        blob_key=lambda sha: layout.connector_blob(account, entity.id, sha),
    )
