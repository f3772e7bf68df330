"""Write through a REST catalog: create and commit by its standard requests.

The house sends the requests itself, to checked addresses. Credentials and settings that a server
hands out are ignored: files are written with those of the connection alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from datarecs_connectors.http_json import NoAnswerError
from datarecs_connectors.iceberg.catalogs import (
    Catalog,
    CurrentTable,
    RestRoutes,
    RestServer,
    TableMissingError,
    TableName,
)
from datarecs_connectors.sinking.catalog_changes import (
    ConflictError,
    NewTable,
    OutcomeUnknownError,
    TableChange,
)
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.connection import RestCatalog

_OK = range(200, 300)
_ABSENT, _CONFLICT = 404, 409
_BROKEN = range(500, 600)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestTables:
    """Port WritableCatalog over the REST protocol."""

    catalog: Catalog
    config: RestCatalog

    def find(self, name: TableName) -> CurrentTable | None:
        try:
            return self._server.load(name)
        except TableMissingError:
            return None

    def commit(self, name: TableName, current: CurrentTable, change: TableChange) -> None:  # noqa: ARG002  the requirements say what `current` is
        routes = self._server.routes()
        document = {
            "identifier": {"namespace": list(name.namespace), "name": name.name},
            "requirements": [_document(each) for each in change.requirements],
            "updates": [_document(each) for each in change.updates],
        }
        path = f"namespaces/{routes.levels(name.namespace)}/tables/{quote(name.name, safe='')}"
        try:
            status = self._post(routes, path, document)
        except NoAnswerError as cause:
            raise OutcomeUnknownError from cause
        if status in _OK:
            return
        if status == _CONFLICT:
            raise ConflictError
        if status in _BROKEN:
            raise OutcomeUnknownError
        if status == _ABSENT:
            raise SinkError(SinkCode.TABLE_LOST, f"table {name} does not exist any more")
        raise self._refused(f"a commit to table {name}", status)

    def create(self, name: TableName, table: NewTable) -> None:
        routes = self._server.routes()
        document = {
            "name": name.name,
            "schema": _document(table.schema),
            "partition-spec": _document(table.spec),
            "properties": table.properties,
            "stage-create": False,
        }
        path = f"namespaces/{routes.levels(name.namespace)}/tables"
        status = self._post(routes, path, document)
        if status == _ABSENT:
            self._create_namespaces(routes, name)
            status = self._post(routes, path, document)
        if status not in _OK and status != _CONFLICT and self.find(name) is None:
            raise self._refused(f"the table {name}", status)

    def _create_namespaces(self, routes: RestRoutes, name: TableName) -> None:
        for depth in range(1, len(name.namespace) + 1):
            levels = list(name.namespace[:depth])
            status = self._post(routes, "namespaces", {"namespace": levels, "properties": {}})
            if status not in _OK and status != _CONFLICT:
                raise self._refused(f"the namespace {'.'.join(levels)}", status)

    @property
    def _server(self) -> RestServer:
        return RestServer(catalog=self.catalog, config=self.config)

    def _post(self, routes: RestRoutes, path: str, document: Mapping[str, object]) -> int:
        """The status of the answer. Raises NoAnswerError without one."""
        return routes.server.send(f"{routes.base}{path}", document, token=routes.token)

    def _refused(self, what: str, status: int) -> SinkError:
        return SinkError(
            SinkCode.COMMIT_FAILED,
            f"the catalog at {self.config.uri} refuses {what} with status {status}; check the "
            "rights of the connection",
        )


def _document(model: Any) -> Mapping[str, Any]:  # noqa: ANN401  models of pyiceberg
    document: Mapping[str, Any] = json.loads(model.model_dump_json(by_alias=True))
    return document
