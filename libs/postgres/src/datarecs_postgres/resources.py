"""The rows of `resource` and `resource_change`: compare-and-set on rv, one change per write.

Like runs, resources are saved with only the changed columns: users own the spec, one controller the
status, and the grants of the database follow this. No caller sets `version`: a trigger raises it by
one with every write, as the rules of core do.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, delete, func, select, tuple_, update
from sqlalchemy import insert as plain_insert
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.errors import ResourceExistsError
from datarecs_application.ports.resources import JobsUsing
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.resources import RESOURCE, RESOURCE_CHANGE


class PostgresResources:
    """Port Resources."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loaded: dict[ResourceUid, Resource] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        return self._one(self._named(kind, namespace, name))

    def get_by_uid(self, uid: ResourceUid) -> Resource | None:
        return self._one(select(RESOURCE).where(*self._by_uid(uid)))

    def for_update(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        return self._one(self._named(kind, namespace, name).with_for_update())

    def add(self, resource: Resource) -> None:
        if resource.tenant_id != self._session.tenant_id:
            raise ValueError("a resource is added in a transaction of its own tenant")
        row = _to_row(resource)
        # Only the controller writes status, also for a new row: the default of the column is empty.
        named = {
            name: value
            for name, value in row.items()
            if name not in {"status", "observed_generation"} or value
        }
        added = self._session.execute(
            insert(RESOURCE).values(named).on_conflict_do_nothing().inline()
        )
        if not added.rowcount:
            raise ResourceExistsError(
                kind=resource.kind, namespace=resource.namespace, name=resource.name
            )
        self._loaded[resource.uid] = resource

    def replace(self, resource: Resource, *, expected_rv: int) -> bool:
        before = self._loaded.get(resource.uid) or self.get_by_uid(resource.uid)
        if before is None or before.rv != expected_rv:
            return False
        old = _to_row(before)
        changed = {name: value for name, value in _to_row(resource).items() if value != old[name]}
        written = self._session.execute(
            update(RESOURCE)
            .where(
                *self._by_uid(resource.uid),
                RESOURCE.c.rv == expected_rv,
                RESOURCE.c.rv < resource.rv,
            )
            .values(changed | {"rv": resource.rv})
        )
        if written.rowcount:
            self._loaded[resource.uid] = resource
        return bool(written.rowcount)

    def remove(self, resource: Resource, *, expected_rv: int) -> bool:
        gone = self._session.execute(
            delete(RESOURCE).where(*self._by_uid(resource.uid), RESOURCE.c.rv == expected_rv)
        )
        self._loaded.pop(resource.uid, None)
        return bool(gone.rowcount)

    def record_change(
        self, resource: Resource, *, op: str, changed: Sequence[str], actor: str
    ) -> None:
        self._session.execute(
            plain_insert(RESOURCE_CHANGE)
            .values(
                tenant_id=self._session.tenant_id,
                rv=resource.rv,
                kind=resource.kind.value,
                namespace=resource.namespace,
                name=resource.name,
                uid=resource.uid,
                op=op,
                generation=resource.generation,
                changed=list(changed),
                body=_body(resource) if op == "DELETED" else None,
                actor=actor,
            )
            .inline()
        )
        self._session.wake()

    def hold(self, kind: Kind, namespace: str, names: Iterable[str]) -> None:
        wanted = sorted(names)
        if wanted:
            self._session.execute(
                select(RESOURCE.c.uid)
                .where(
                    self._session.tenant_rows(RESOURCE),
                    RESOURCE.c.kind == kind.value,
                    RESOURCE.c.namespace == namespace,
                    RESOURCE.c.name.in_(wanted),
                )
                .order_by(RESOURCE.c.name)
                .with_for_update(key_share=True, read=True)
            )

    def jobs_using(self, connection: str, *, limit: int) -> JobsUsing:
        rows = self._session.execute(
            select(RESOURCE.c.namespace, RESOURCE.c.name, func.count().over().label("found"))
            .where(
                self._session.tenant_rows(RESOURCE),
                RESOURCE.c.kind == Kind.RECONCILIATION_JOB.value,
                RESOURCE.c.spec.contains({"sources": [{"connection": connection}]}),
            )
            .order_by(RESOURCE.c.namespace, RESOURCE.c.name)
            .limit(limit)
        ).all()
        first = tuple((row.namespace, row.name) for row in rows)
        return JobsUsing(first=first, total=rows[0].found if rows else 0)

    def page(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        limit: int = 50,
        before: tuple[datetime, ResourceUid] | None = None,
    ) -> list[Resource]:
        statement = select(RESOURCE).where(
            self._session.tenant_rows(RESOURCE), RESOURCE.c.kind == kind.value
        )
        if namespace is not None:
            statement = statement.where(RESOURCE.c.namespace == namespace)
        if before is not None:
            statement = statement.where(tuple_(RESOURCE.c.created_at, RESOURCE.c.uid) < before)
        newest = statement.order_by(RESOURCE.c.created_at.desc(), RESOURCE.c.uid.desc())
        return [_from_row(row) for row in self._session.execute(newest.limit(limit))]

    def _named(self, kind: Kind, namespace: str, name: str) -> Select[tuple[Any, ...]]:
        return select(RESOURCE).where(
            self._session.tenant_rows(RESOURCE),
            RESOURCE.c.kind == kind.value,
            RESOURCE.c.namespace == namespace,
            RESOURCE.c.name == name,
        )

    def _by_uid(self, uid: ResourceUid) -> tuple[ColumnElement[bool], ...]:
        return (self._session.tenant_rows(RESOURCE), RESOURCE.c.uid == uid)

    def _one(self, statement: Select[tuple[Any, ...]]) -> Resource | None:
        row = self._session.execute(statement).one_or_none()
        if row is None:
            return None
        resource = _from_row(row)
        self._loaded[resource.uid] = resource
        return resource


def _to_row(resource: Resource) -> dict[str, Any]:
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


def _from_row(row: Row[tuple[Any, ...]]) -> Resource:
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


def _body(resource: Resource) -> Mapping[str, Any]:
    """The tombstone: the last body, with names and types of JSON."""
    body = _to_row(resource)
    return body | {
        "tenant_id": str(resource.tenant_id),
        "uid": str(resource.uid),
        "created_at": resource.created_at.isoformat(),
        "deletion_at": resource.deletion_at and resource.deletion_at.isoformat(),
    }
