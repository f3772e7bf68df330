"""Views of Iceberg: their SQL in each dialect, and the columns of their current version."""

import gzip
import io
import json
from collections.abc import Mapping
from urllib.parse import quote

from pydantic import ValidationError
from pyiceberg.view.metadata import ViewMetadata, ViewVersion

from datarecs_connectors.errors import CorruptSourceError, QueryFailedError, SourceLimitError
from datarecs_connectors.http_json import MAX_BYTES
from datarecs_connectors.iceberg.catalogs import VIEW, Catalog, RestServer, TableName, member_of
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.iceberg.history import table_columns
from datarecs_core.captures.request import ObjectName
from datarecs_core.captures.source_facts import SourceView
from datarecs_core.catalog.records import ViewDefinition
from datarecs_core.resources.connection import RestCatalog, SqlCatalog

_GZIP = b"\x1f\x8b"


def view_of(catalog: Catalog, name: TableName) -> SourceView:
    """The current version of a view; the format does not list the relations that it reads.

    Raises QueryFailedError if there is no such view, and what `Catalog.current` raises.
    """
    metadata = _metadata(catalog, name)
    version = _current(catalog, name, metadata)
    schema = next((one for one in metadata.schemas if one.schema_id == version.schema_id), None)
    if schema is None:
        raise _broken(catalog, name, "its schema is missing")
    place = (version.default_catalog,) if version.default_catalog else ()
    return SourceView(
        name=ObjectName(namespace=name.namespace, name=name.name),
        definitions=tuple(
            ViewDefinition(sql=each.root.sql, dialect=each.root.dialect)
            for each in version.representations
        ),
        base_relations=(),
        search_path=(".".join((*place, *version.default_namespace)),),
        columns=table_columns(catalog.source, schema),
        comment=metadata.properties.get("comment"),
    )


def _current(catalog: Catalog, name: TableName, metadata: ViewMetadata) -> ViewVersion:
    for version in metadata.versions:
        if version.version_id == metadata.current_version_id:
            return version
    raise _broken(catalog, name, "its current version is missing")


def _metadata(catalog: Catalog, name: TableName) -> ViewMetadata:
    match catalog.config.catalog:
        case RestCatalog() as rest:
            document = _served(catalog, rest, name)
        case SqlCatalog() as sql:
            document = _registered(catalog, sql, name)
        case _:
            document = None
    if document is None:
        raise QueryFailedError(
            catalog.source,
            f"the catalog has no view {str(name)!r}; it may have been dropped since it was listed",
        )
    try:
        return ViewMetadata.model_validate(document)
    except (ValidationError, ValueError, KeyError, TypeError):
        raise _broken(catalog, name, "it is no view of format version 1") from None  # quotes it


def _served(catalog: Catalog, rest: RestCatalog, name: TableName) -> Mapping[str, object] | None:
    routes = RestServer(catalog=catalog, config=rest).routes()
    answer = routes.get(f"namespaces/{routes.levels(name.namespace)}/views/{_quoted(name)}")
    return None if answer is None else member_of(answer, "metadata")


def _registered(catalog: Catalog, sql: SqlCatalog, name: TableName) -> Mapping[str, object] | None:
    row = catalog.sql_row(sql, name)
    if row is None or row.get("iceberg_type") != VIEW:
        return None
    file = TableFiles(catalog.places).new_input(str(row["metadata_location"]))
    with file.open() as opened:
        content = opened.read(MAX_BYTES + 1)
    try:
        if content.startswith(_GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as plain:
                content = plain.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SourceLimitError(catalog.source, f"the metadata of {name} has over {MAX_BYTES} B")
        document = json.loads(content)
    except (ValueError, OSError, EOFError):
        raise _broken(catalog, name, "it is not JSON") from None
    return document if isinstance(document, dict) else {}


def _quoted(name: TableName) -> str:
    return quote(name.name, safe="")


def _broken(catalog: Catalog, name: TableName, why: str) -> CorruptSourceError:
    return CorruptSourceError(
        catalog.source, f"the metadata of view {str(name)!r} cannot be read: {why}"
    )
