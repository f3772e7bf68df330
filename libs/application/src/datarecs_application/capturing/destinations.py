"""Where a capture writes: a catalog per connection, and objects named as in the source.

Everything is found by its name, so that two captures of one connection write the same objects.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities, Stored
from datarecs_application.catalogue.tables import Tables
from datarecs_application.ports.outside import Ids
from datarecs_core.captures.request import ObjectName
from datarecs_core.captures.source_facts import SourceTable, SourceView
from datarecs_core.catalog import layout
from datarecs_core.catalog.placement import Entity
from datarecs_core.catalog.records import (
    Account,
    Catalog,
    Connector,
    Namespace,
    Table,
    Upstream,
    View,
)
from datarecs_core.errors.captures import CaptureCode, CaptureFailedError
from datarecs_core.errors.catalogue import ContentConflictError, NameConflictError
from datarecs_core.resources.connection import Connection
from datarecs_core.values import ResourceUid

E = TypeVar("E", bound=Entity)
V = TypeVar("V", Table, View, Connector)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedConnection:
    """The connection of a capture, as it is declared now."""

    uid: ResourceUid
    name: str
    declared: Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """The objects that captures of one connection write."""

    account: CatalogueAccount
    ids: Ids
    now: datetime
    connection: CapturedConnection
    is_declared: Callable[[UUID], bool]
    """Whether the connection with this uid still exists."""

    def catalog(self) -> Catalog:
        """The catalog of the connection, with its account and its connector."""
        self._account()
        name = self.connection.name
        catalogs = Entities(self.account, Catalog)
        stored = self._ensure(
            catalogs,
            layout.catalog_by_name(self.account.tenant, name),
            Catalog(
                id=self.ids.new(),
                name=name,
                created_at=self.now,
                updated_at=self.now,
                connector_ref=self.connection.uid,
                properties={},
            ),
        )
        self._refuse_foreign(stored.record)
        if stored.record.connector_ref != self.connection.uid:
            # The connection was deleted and declared again under its name.
            moved = replace(stored.record, connector_ref=self.connection.uid, updated_at=self.now)
            stored = catalogs.update(moved, expected_version=stored.version)
        self._connector(stored.record)
        return stored.record

    def existing_table(self, name: ObjectName) -> Stored[Table] | None:
        """The table of the catalogue, if an earlier capture has written it."""
        tenant = self.account.tenant
        by_name = layout.catalog_by_name(tenant, self.connection.name)
        catalog = Entities(self.account, Catalog).by_name(by_name)
        if catalog is None:
            return None
        self._refuse_foreign(catalog.record)
        path = layout.namespace_by_path(tenant, catalog.record.id, name.namespace)
        namespace = Entities(self.account, Namespace).by_name(path)
        if namespace is None:
            return None
        key = layout.table_by_name(tenant, catalog.record.id, namespace.record.id, name.name)
        return Tables(self.account).by_name(key)

    def table(self, source: SourceTable) -> tuple[Table, bool]:
        """The table as the source describes it now; whether something about it changed."""
        catalog = self.catalog()
        namespace = self._namespace(catalog, source.name.namespace)
        fresh = Table(
            id=self.ids.new(),
            catalog_id=catalog.id,
            namespace_id=namespace.id,
            name=source.name.name,
            created_at=self.now,
            updated_at=self.now,
            description=source.comment,
            columns=source.columns,
            upstream=Upstream(
                connector_id=self.connection.uid,
                uri=source.uri,
                namespace=source.name.namespace,
                name=source.name.name,
                format=source.format,
                partition_keys=source.partition_keys,
                column_ids=source.column_ids,
            ),
            properties=source.properties,
        )
        key = layout.table_by_name(self.account.tenant, catalog.id, namespace.id, fresh.name)
        return self._put(Tables(self.account), key, fresh)

    def view(self, source: SourceView) -> bool:
        """Create or replace the view in place; whether something about it changed."""
        catalog = self.catalog()
        namespace = self._namespace(catalog, source.name.namespace)
        fresh = View(
            id=self.ids.new(),
            catalog_id=catalog.id,
            namespace_id=namespace.id,
            name=source.name.name,
            created_at=self.now,
            updated_at=self.now,
            description=source.comment,
            definitions=source.definitions,
            base_relations=source.base_relations,
            search_path=source.search_path,
            columns=source.columns,
            properties={},
        )
        key = layout.view_by_name(self.account.tenant, catalog.id, namespace.id, fresh.name)
        _, is_changed = self._put(Entities(self.account, View), key, fresh)
        return is_changed

    def _refuse_foreign(self, catalog: Catalog) -> None:
        """Raise CaptureFailedError if the catalog belongs to another connection that exists."""
        owner = catalog.connector_ref
        if owner is not None and owner != self.connection.uid and self.is_declared(owner):
            message = f"the catalog {catalog.name} belongs to the connection {owner}"
            raise CaptureFailedError(CaptureCode.DESTINATION_CONFLICT, message)

    def _account(self) -> None:
        accounts, tenant = Entities(self.account, Account), self.account.tenant
        if accounts.get(tenant) is None:
            fresh = Account(id=tenant, name=str(tenant), created_at=self.now, tags={})
            try:
                accounts.create(fresh)
            except ContentConflictError:
                return  # another capture was first

    def _connector(self, catalog: Catalog) -> None:
        connectors = Entities(self.account, Connector)
        name, uid = self.connection.name, self.connection.uid
        by_name = layout.connector_by_name(self.account.tenant, name)
        before = connectors.by_name(by_name)
        if before is not None and before.record.connection_uid != uid:
            connectors.delete(before.record.id, expected_version=before.version)
        fresh = Connector(
            id=uid,
            connection_uid=uid,
            name=name,
            source_kind=self.connection.declared.type,
            destination_ids=(catalog.id,),
            secret_refs=tuple(sorted(self.connection.declared.auth.values())),
            created_at=self.now,
            updated_at=self.now,
        )
        self._put(connectors, by_name, fresh)

    def _namespace(self, catalog: Catalog, path: tuple[str, ...]) -> Namespace:
        """The namespace of a path, with its parents."""
        namespaces = Entities(self.account, Namespace)
        stored: Stored[Namespace] | None = None
        for length in range(1, len(path) + 1):
            fresh = Namespace(
                id=self.ids.new(),
                catalog_id=catalog.id,
                path=path[:length],
                parent_id=None if stored is None else stored.record.id,
                created_at=self.now,
                updated_at=self.now,
                properties={},
            )
            key = layout.namespace_by_path(self.account.tenant, catalog.id, path[:length])
            stored = self._ensure(namespaces, key, fresh)
        if stored is None:
            raise ValueError("a namespace has at least one part")
        return stored.record

    def _put(self, entities: Entities[V], name_key: str, fresh: V) -> tuple[V, bool]:
        """Create or replace the object of a name, which keeps its id; whether it changed."""
        stored = self._ensure(entities, name_key, fresh)
        known = stored.record
        wanted = replace(
            fresh, id=known.id, created_at=known.created_at, updated_at=known.updated_at
        )
        if wanted == known:
            return known, known == fresh
        changed = replace(wanted, updated_at=self.now)
        return entities.update(changed, expected_version=stored.version).record, True

    def _ensure(self, entities: Entities[E], name_key: str, fresh: E) -> Stored[E]:
        """The object of a name; created if there is none, whoever is first."""
        stored = entities.by_name(name_key)
        if stored is not None:
            return stored
        try:
            return entities.create(fresh)
        except (NameConflictError, ContentConflictError) as conflict:
            stored = entities.by_name(name_key)
            if stored is not None:
                return stored
            message = f"{conflict}; a table and a view of the source may have the same name"
            raise CaptureFailedError(CaptureCode.DESTINATION_CONFLICT, message) from conflict
