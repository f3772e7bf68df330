"""Records of the catalogue as JSON, and whether a caller may read values of the source in them.

The least and greatest values of columns come from the source: like sample rows they need a
permission of their own, and reading them is written to the audit.
"""

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from uuid import UUID

from fastapi import Request

from datarecs_application.ports.state import AuditEntry
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.catalog.layout import content_hash
from datarecs_core.catalog.protobuf import Record
from datarecs_core.catalog.records import FileStats, TargetStats
from datarecs_core.values import instant_text
from datarecs_core_api.audit import asker
from datarecs_core_api.catalogue_outputs import CatalogueRecordOut
from datarecs_core_api.dependencies import Ports
from datarecs_core_api.outputs import JsonObject
from datarecs_core_api.published_types import LARGEST_EXACT

_VALUES = ("min", "max")
_NEVER = ("sketch",)
"""Hashes of values, for merging alone."""


def sees_values(caller: Principal) -> bool:
    return caller.may(Permission.SAMPLE_READ)


def record_json(record: Record, *, values: bool) -> JsonObject:
    """Its fields; ids of 64 bits and larger numbers as texts."""
    return _object(record, values=values)


def record_out(record: Record, *, version: int, blob_key: str, values: bool) -> CatalogueRecordOut:
    return CatalogueRecordOut(
        kind=record.kind,
        pointer_version=version,
        blob_sha256=sha_of(blob_key),
        record=record_json(record, values=values),
    )


def sha_of(blob_key: str) -> str:
    """The hash that a content-addressed key names."""
    sha = content_hash(blob_key)
    if sha is None:
        raise TypeError(f"{blob_key} is no key of a record")
    return sha


def etag_of(blob_key: str, version: int, *, values: bool) -> str:
    """Another one for a caller who sees other fields."""
    return f'"{sha_of(blob_key)}:{version}{":v" if values else ""}"'


def note_values(use: Ports, caller: Principal, request: Request, *records: Record) -> None:
    """Audit that a caller reads values of a source, if there are any."""
    tables = {
        str(one.table_id)
        for one in records
        if isinstance(one, TargetStats | FileStats) and sees_values(caller)
    }
    for table in sorted(tables):
        note_read(use, caller, request, table)


def note_read(use: Ports, caller: Principal, request: Request, table_id: str) -> None:
    entry = AuditEntry(
        **asker(request, caller),
        action="sample.read",
        resource_kind="Table",
        resource_uid=table_id,
    )
    with use.unit.begin(caller.tenant_id) as tx:
        tx.audit.append(entry)


def _object(value: object, *, values: bool) -> JsonObject:
    if not is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is no record")
    names = [each.name for each in fields(value) if each.name not in _NEVER]
    return {
        name: None
        if name in _VALUES and not values
        else _json(getattr(value, name), is_id=_is_id(name), values=values)
        for name in names
    }


def _is_id(name: str) -> bool:
    return name.endswith("_id") or name == "sequence_number"


def _json(value: object, *, is_id: bool, values: bool) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if is_id or abs(value) > LARGEST_EXACT else value
    if isinstance(value, tuple):
        return [_json(one, is_id=is_id, values=values) for one in value]
    return _object(value, values=values) if is_dataclass(value) else _plain(value)


def _plain(value: object) -> object:
    match value:
        case datetime():
            return instant_text(value)
        case UUID():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return dict(value)
        case _:
            return value
