"""A declared object as a row, as the stored body of a change, and back.

Separate from `resources`, because the change feed reads bodies outside a transaction of writers.
"""

from collections import namedtuple
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, and_, or_

from datarecs_core.resources.change_feed import ResourceChange
from datarecs_core.resources.changes import Op
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId, aware
from datarecs_postgres.tables.resources import RESOURCE

ResourceRow = namedtuple("ResourceRow", RESOURCE.c.keys())  # type: ignore[misc]  # noqa: PYI024  the table's columns
STORED = len(RESOURCE.c)
"""Columns of an object in a row of the driver."""
VERSION = "version"
"""A body with this member is complete; earlier releases stored it only for DELETED, without it."""


def row_of(resource: Resource) -> dict[str, Any]:
    """The columns that writers set."""
    return {
        "tenant_id": resource.tenant_id,
        "uid": resource.uid,
        "kind": resource.kind.value,
        "namespace": resource.namespace,
        "name": resource.name,
        "api_version": resource.api_version,
        "generation": resource.generation,
        "rv": resource.rv,
        "spec": resource.spec,
        "spec_hash": resource.spec_hash,
        "labels": resource.labels,
        "annotations": resource.annotations,
        "finalizers": list(resource.finalizers),
        "status": resource.status,
        "observed_generation": resource.observed_generation,
        "created_at": resource.created_at,
        "deletion_at": resource.deletion_at,
    }


def resource_of(row: Any) -> Resource:  # noqa: ANN401  a row of SQLAlchemy, or ResourceRow
    return Resource(
        tenant_id=row.tenant_id,
        uid=ResourceUid(row.uid),
        kind=Kind(row.kind),
        namespace=row.namespace,
        name=row.name,
        api_version=row.api_version,
        generation=row.generation,
        rv=row.rv,
        version=row.version,
        spec=row.spec,
        spec_hash=row.spec_hash,
        status=row.status,
        observed_generation=row.observed_generation,
        labels=row.labels,
        annotations=row.annotations,
        finalizers=tuple(row.finalizers),
        created_at=aware(row.created_at),
        deletion_at=None if row.deletion_at is None else aware(row.deletion_at),
    )


def reads_from(connection: str) -> ColumnElement[bool]:
    """Whether a capture, a sink, or a source of a job, names the connection."""
    kind, spec = RESOURCE.c.kind, RESOURCE.c.spec
    return or_(
        and_(
            kind == Kind.RECONCILIATION_JOB.value,
            spec.contains({"sources": [{"connection": connection}]}),
        ),
        and_(
            kind.in_([Kind.CAPTURE.value, Kind.SINK_TABLE.value]),
            spec.contains({"connection": connection}),
        ),
        and_(
            kind == Kind.SINK_TABLE.value,
            or_(
                spec.contains({"tables": [{"catalog": connection}]}),
                spec.contains({"dynamic": {"catalog": connection}}),
            ),
        ),
    )


def body_of(resource: Resource) -> Mapping[str, Any]:
    """The object with names and types of JSON."""
    body = row_of(resource)
    return body | {
        "tenant_id": str(resource.tenant_id),
        "uid": str(resource.uid),
        VERSION: resource.version,
        "created_at": resource.created_at.isoformat(),
        "deletion_at": resource.deletion_at and resource.deletion_at.isoformat(),
    }


def change_of(row: Row[tuple[Any, ...]]) -> ResourceChange:
    """A row of `resource_change`."""
    return ResourceChange(
        rv=row.rv,
        kind=Kind(row.kind),
        namespace=row.namespace,
        name=row.name,
        uid=ResourceUid(row.uid),
        op=Op(row.op),
        generation=row.generation,
        changed=tuple(row.changed),
        actor=row.actor,
        at=aware(row.at),
        resource=_stored(row.body),
        old_labels=row.old_labels,
    )


def _stored(body: Mapping[str, Any] | None) -> Resource | None:
    """None for a body that an earlier release wrote, or left out."""
    if body is None or VERSION not in body:
        return None
    deletion_at = body["deletion_at"]
    return Resource(
        tenant_id=TenantId(UUID(body["tenant_id"])),
        uid=ResourceUid(UUID(body["uid"])),
        kind=Kind(body["kind"]),
        namespace=body["namespace"],
        name=body["name"],
        api_version=body["api_version"],
        generation=body["generation"],
        rv=body["rv"],
        version=body[VERSION],
        spec=body["spec"],
        spec_hash=body["spec_hash"],
        status=body["status"],
        observed_generation=body["observed_generation"],
        labels=body["labels"],
        annotations=body["annotations"],
        finalizers=tuple(body["finalizers"]),
        created_at=datetime.fromisoformat(body["created_at"]),
        deletion_at=None if deletion_at is None else datetime.fromisoformat(deletion_at),
    )
