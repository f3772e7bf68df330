"""The tables and views of a catalog, as each kind of catalog lists them.

Separate from `catalogs`, because a comparison names its table and never lists any. A catalog is
external input: names are checked by those who use them, and their number is limited.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never
from urllib.parse import quote

from datarecs_connectors.errors import CorruptSourceError, SourceLimitError
from datarecs_connectors.iceberg.catalogs import (
    VIEW,
    Catalog,
    RestRoutes,
    RestServer,
    TableName,
)
from datarecs_core.resources.connection import HadoopCatalog, RestCatalog, SqlCatalog

MAX_OBJECTS = 50_000
"""Of tables and views together, and of namespaces."""
MAX_DEPTH = 32
"""Levels of a namespace."""
_MAX_PAGES = 100_000
_ALL = "SELECT * FROM iceberg_tables WHERE catalog_name = {catalog}"
_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"
"""An endpoint that a server lists if it has it."""
Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """In any order, each once."""

    tables: Sequence[TableName]
    views: Sequence[TableName]


def listed(catalog: Catalog, namespaces: Collection[Namespace]) -> Listing:
    """The tables and views directly in these namespaces; of the whole catalog if there are none.

    Raises what `Catalog.current` raises, and SourceLimitError.
    """
    match catalog.config.catalog:
        case SqlCatalog() as sql:
            listing = _in_sql(catalog, sql, namespaces)
        case RestCatalog() as rest:
            routes = RestServer(catalog=catalog, config=rest).routes()
            listing = _Requests(catalog=catalog, routes=routes).listing(namespaces)
        case HadoopCatalog(warehouse=warehouse):
            folder = catalog.places.folder(warehouse)
            listing = _in_folders(catalog, folder, namespaces)
        case never:
            assert_never(never)
    _check_count(catalog, len(listing.tables) + len(listing.views))
    return listing


def _check_count(catalog: Catalog, count: int) -> None:
    if count > MAX_OBJECTS:
        raise SourceLimitError(
            catalog.source,
            f"the catalog lists more than {MAX_OBJECTS} tables and views, or namespaces; name "
            "the namespaces of the capture",
        )


def _in_sql(catalog: Catalog, sql: SqlCatalog, namespaces: Collection[Namespace]) -> Listing:
    tables: list[TableName] = []
    views: list[TableName] = []
    rows = catalog.sql_rows(sql, _ALL, {"catalog": sql.name})
    _check_count(catalog, len(rows))
    for row in rows:
        levels = tuple(str(row["table_namespace"]).split("."))
        if not namespaces or levels in namespaces:
            name = TableName(levels, str(row["table_name"]))
            (views if row.get("iceberg_type") == VIEW else tables).append(name)
    return Listing(tables=tables, views=views)


def _in_folders(catalog: Catalog, warehouse: Path, namespaces: Collection[Namespace]) -> Listing:
    """A folder with a folder `metadata` is a table, every other one a namespace."""
    tables: list[TableName] = []
    if namespaces:
        for namespace in namespaces:
            if all(_is_plain(level) for level in namespace):
                tables += _folder(catalog, warehouse, namespace)[0]
        return Listing(tables=tables, views=())
    open_namespaces: list[Namespace] = [()]
    visited = 0
    while open_namespaces:
        namespace = open_namespaces.pop()
        here, below = _folder(catalog, warehouse, namespace)
        tables += here if namespace else ()
        open_namespaces += below if len(namespace) < MAX_DEPTH else ()
        visited += 1
        _check_count(catalog, max(len(tables), visited))
    return Listing(tables=tables, views=())


def _folder(
    catalog: Catalog, warehouse: Path, namespace: Namespace
) -> tuple[list[TableName], list[Namespace]]:
    """The tables in the folder of a namespace, and the namespaces below it."""
    tables: list[TableName] = []
    below: list[Namespace] = []
    folder = warehouse.joinpath(*namespace)
    for name, is_folder in (catalog.entries(folder) or {}).items():
        if not is_folder or not _is_plain(name) or name.startswith((".", "_")):
            continue
        inside = catalog.entries(folder / name) or {}
        if inside.get("metadata"):
            tables.append(TableName(namespace, name))
        else:
            below.append((*namespace, name))
    return tables, below


def _is_plain(level: str) -> bool:
    return bool(level) and "/" not in level and level not in {".", ".."} and level.isprintable()


@dataclass(slots=True, kw_only=True)
class _Requests:
    """Pages of a REST catalog."""

    catalog: Catalog
    routes: RestRoutes
    pages: int = field(default=0)

    def listing(self, namespaces: Collection[Namespace]) -> Listing:
        tables: list[TableName] = []
        views: list[TableName] = []
        has_views = _VIEWS in self.routes.endpoints
        for namespace in namespaces or self._namespaces():
            place = f"namespaces/{self.routes.levels(namespace)}"
            tables += self._names(f"{place}/tables")
            if has_views:
                views += self._names(f"{place}/views")
            _check_count(self.catalog, len(tables) + len(views))
        return Listing(tables=tables, views=views)

    def _namespaces(self) -> Sequence[Namespace]:
        """All of them, also nested ones; each once, whatever the server repeats."""
        known: dict[Namespace, None] = {}
        waiting: list[Namespace] = [()]
        while waiting:
            parent = waiting.pop()
            query = f"?parent={self.routes.levels(parent)}" if parent else ""
            for entry in self._pages(f"namespaces{query}", "namespaces"):
                namespace = tuple(map(str, entry)) if isinstance(entry, list) else ()
                is_child = namespace[:-1] == parent and len(namespace) == len(parent) + 1
                if is_child and namespace not in known and len(namespace) <= MAX_DEPTH:
                    known[namespace] = None
                    waiting.append(namespace)
            _check_count(self.catalog, len(known))
        return tuple(known)

    def _names(self, path: str) -> Iterator[TableName]:
        for entry in self._pages(path, "identifiers"):
            if isinstance(entry, dict) and isinstance(entry.get("namespace"), list):
                yield TableName(tuple(map(str, entry["namespace"])), str(entry.get("name")))

    def _pages(self, path: str, member: str) -> Iterator[object]:
        """The entries of all pages; none if the server does not know the path."""
        token: str | None = None
        while True:
            self.pages += 1
            if self.pages > _MAX_PAGES:
                raise SourceLimitError(self.catalog.source, f"more than {_MAX_PAGES} pages")
            answer = self.routes.get(_paged(path, token))
            if answer is None:
                return
            yield from self._entries(answer, member)
            following = answer.get("next-page-token")
            if not isinstance(following, str) or not following:
                return
            token = following

    def _entries(self, answer: Mapping[str, object], member: str) -> Sequence[object]:
        entries = answer.get(member, [])
        if not isinstance(entries, list):
            raise CorruptSourceError(
                self.catalog.source, f"the catalog answers without a list of {member}"
            )
        return entries


def _paged(path: str, token: str | None) -> str:
    if token is None:
        return path
    return f"{path}{'&' if '?' in path else '?'}pageToken={quote(token, safe='')}"
