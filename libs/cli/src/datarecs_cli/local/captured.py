"""Captured folders of a local comparison as they were: their files, from the catalogue of a server.

The server says which files the newest snapshot of a time had; the connector then compares each of
them with the folder or bucket and reads these alone. Separate from the connections of a server
because the catalogue is read only when a source is opened.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from datarecs_application.captured_tables import (
    files_not_captured,
    is_entry,
    moment_of,
    not_captured,
    table_names,
)
from datarecs_cli.invocation import Invocation
from datarecs_core.captures.catalogued import CataloguedFile, CataloguedTable
from datarecs_core.captures.naming import joined_name
from datarecs_core.comparison.planning.scan import CataloguedSnapshot
from datarecs_core.jobs.definition import Source
from datarecs_core.values import instant_text
from datarecs_runtime.clock import SystemClock

if TYPE_CHECKING:
    from datarecs_cli.client import Api, Json

_NOT_FOUND = 404


@dataclass(slots=True, kw_only=True)
class ServerCatalogue:
    """The catalogue of this command's server; each table is read once."""

    invocation: Invocation
    tables: dict[str, CataloguedTable] = field(default_factory=dict)
    """By source."""

    def table(self, source: Source, root: Path | None, folder: Path | None) -> CataloguedTable:
        """The table of a source, with the files that it had at the time of the source.

        Args:
            source: of files, with a connection and `snapshot.as_of`.
            root: the folder that its path starts from; None for a bucket.
            folder: that of its connection, in which paths of captures start.

        Raises:
            SnapshotNotCapturedError: no capture has the table, or its files, at this time.
            NoServerKnownError, ServerUnreachableError, RefusedError: the server does not answer.
        """
        if root != folder:
            raise not_captured(source)
        if source.name not in self.tables:
            self.tables[source.name] = self._read(source)
        return self.tables[source.name]

    def _read(self, source: Source) -> CataloguedTable:
        from datarecs_cli.client import connect
        from datarecs_cli.config import NoServerKnownError

        try:
            api = connect(self.invocation)
        except NoServerKnownError as error:
            raise NoServerKnownError(
                f"source {source.name}: only the server that captures connection "
                f"{source.connection} knows its files at {source.snapshot.as_of}; {error}"
            ) from error
        with api:
            return _table(api, source)


def _table(api: "Api", source: Source) -> CataloguedTable:
    for table in _candidates(api, source):
        place = ("catalog", "tables", str(table["id"]), "snapshots")
        at = instant_text(moment_of(source, SystemClock().now()))
        answer = _maybe(api, *place, "current", as_of=at)
        if answer is None:
            break
        record = _record(answer)
        snapshot = CataloguedSnapshot(
            table_id=UUID(str(table["id"])),
            snapshot_id=int(str(record["snapshot_id"])),
            committed_at=datetime.fromisoformat(str(record["committed_at"])),
        )
        return CataloguedTable(
            table_id=snapshot.table_id,
            name=str(table["name"]),
            as_of=snapshot,
            files=_files(api, source, snapshot),
        )
    raise not_captured(source)


def _candidates(api: "Api", source: Source) -> "Iterator[Json]":
    """The tables that the path of a source can name; at most one of them is its entry."""
    for namespace, name, entry in table_names(source):
        full = joined_name((source.connection or "", *namespace, name))
        named = _maybe(api, "catalog", "resolve", name=full)
        if named is None or named["kind"] != "table":
            continue
        answer = _maybe(api, "catalog", "tables", str(named["id"]))
        table = {} if answer is None else _record(answer)
        upstream = table.get("upstream")
        if isinstance(upstream, Mapping) and is_entry(str(upstream["uri"]), str(entry)):
            yield table


def _files(api: "Api", source: Source, snapshot: CataloguedSnapshot) -> tuple[CataloguedFile, ...]:
    from datarecs_cli.client import ALL
    from datarecs_cli.refusals import RefusedError

    number = str(snapshot.snapshot_id)
    place = ("catalog", "tables", str(snapshot.table_id), "snapshots", number, "files")
    try:
        return tuple(
            CataloguedFile(
                path=str(one["path"]),
                size_bytes=int(str(one["size_bytes"])),
                etag=str(one["etag"]),
            )
            for one in api.pages(*place, limit=ALL, params={})
        )
    except RefusedError as refused:
        if refused.status != _NOT_FOUND:
            raise
        raise files_not_captured(source, snapshot.snapshot_id) from refused


def _maybe(api: "Api", *parts: str, **params: str) -> "Json | None":
    """None for what the catalogue does not have."""
    from datarecs_cli.refusals import RefusedError

    try:
        return api.get(*parts, **params)
    except RefusedError as refused:
        if refused.status != _NOT_FOUND:
            raise
        return None


def _record(answer: "Json") -> Mapping[str, object]:
    record = answer.get("record")
    return record if isinstance(record, Mapping) else {}
