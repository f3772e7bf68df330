"""The rows of `resource` and `resource_change`: compare-and-set on rv, one change per write.

Like runs, resources are saved with only the changed columns: users own the spec, one controller the
status, and the grants of the database follow this. No caller sets `version`: a trigger raises it by
one with every write, as the rules of core do.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Executable,
    Uuid,
    any_,
    bindparam,
    cast,
    delete,
    func,
    not_,
    select,
    tuple_,
    update,
)
from sqlalchemy import insert as plain_insert
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.errors import ResourceExistsError
from datarecs_application.ports.resources import ConnectionUser, ConnectionUsers
from datarecs_core.resources.change_feed import ResourceChange
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.resources.selector import EVERYTHING, Operator, Requirement, Selector
from datarecs_core.values import ResourceUid
from datarecs_postgres.resource_rows import (
    ResourceRow,
    body_of,
    change_of,
    reads_from,
    resource_of,
    row_of,
)
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.resources import RESOURCE, RESOURCE_CHANGE

_MINE = RESOURCE.c.tenant_id == bindparam("of_tenant")
_OF_UID = (_MINE, RESOURCE.c.uid == bindparam("of_uid"))
_BY_UID = select(RESOURCE).where(*_OF_UID)
_BY_UIDS = select(RESOURCE).where(
    _MINE, RESOURCE.c.uid == any_(cast(bindparam("uids", type_=ARRAY(Uuid)), ARRAY(Uuid)))
)
_BY_NAME = select(RESOURCE).where(
    _MINE,
    RESOURCE.c.kind == bindparam("of_kind"),
    RESOURCE.c.namespace == bindparam("of_namespace"),
    RESOURCE.c.name == bindparam("of_name"),
)
_LOCKED = _BY_NAME.with_for_update()
_REPLACE = update(RESOURCE).where(
    *_OF_UID,
    RESOURCE.c.rv == bindparam("expected_rv"),
    RESOURCE.c.rv < bindparam("new_rv"),
)
"""Sets the named columns."""
_CHANGE = plain_insert(RESOURCE_CHANGE).inline()


class PostgresResources:
    """Port Resources."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loaded: dict[ResourceUid, Resource] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        return self._one(_BY_NAME, _named(kind, namespace, name))

    def get_by_uid(self, uid: ResourceUid) -> Resource | None:
        return self._one(_BY_UID, {"of_uid": uid})

    def get_by_uids(self, uids: Collection[ResourceUid]) -> Mapping[ResourceUid, Resource]:
        wanted = {"of_tenant": self._session.tenant_id, "uids": list(uids)}
        rows = self._session.answer(_BY_UIDS, wanted).fetchall()
        read = {one.uid: one for one in (resource_of(ResourceRow._make(row)) for row in rows)}
        self._loaded.update(read)
        return read

    def for_update(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        return self._one(_LOCKED, _named(kind, namespace, name))

    def add(self, resource: Resource) -> None:
        if resource.tenant_id != self._session.tenant_id:
            raise ValueError("a resource is added in a transaction of its own tenant")
        row = row_of(resource)
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
        old = row_of(before)
        changed = {name: value for name, value in row_of(resource).items() if value != old[name]}
        written = self._session.answer(
            _REPLACE,
            {
                **changed,
                "rv": resource.rv,
                "of_tenant": self._session.tenant_id,
                "of_uid": resource.uid,
                "expected_rv": expected_rv,
                "new_rv": resource.rv,
            },
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
        self,
        resource: Resource,
        *,
        op: str,
        changed: Sequence[str],
        actor: str,
        old_labels: Mapping[str, str] | None = None,
    ) -> None:
        self._session.later(
            _CHANGE,
            {
                "tenant_id": self._session.tenant_id,
                "rv": resource.rv,
                "kind": resource.kind.value,
                "namespace": resource.namespace,
                "name": resource.name,
                "uid": resource.uid,
                "op": op,
                "generation": resource.generation,
                "changed": list(changed),
                "body": body_of(resource),
                "old_labels": old_labels,
                "actor": actor,
            },
        )
        self._session.wake()
        self._session.wake(Woken.CHANGES)

    def changes_of(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        limit: int,
        before: int | None = None,
    ) -> list[ResourceChange]:
        rv = RESOURCE_CHANGE.c.rv
        statement = select(RESOURCE_CHANGE).where(
            self._session.tenant_rows(RESOURCE_CHANGE),
            RESOURCE_CHANGE.c.kind == kind.value,
            RESOURCE_CHANGE.c.namespace == namespace,
            RESOURCE_CHANGE.c.name == name,
        )
        if before is not None:
            statement = statement.where(rv < before)
        rows = self._session.execute(statement.order_by(rv.desc()).limit(limit))
        return [change_of(row) for row in rows]

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

    def users_of(self, connection: str, *, limit: int) -> ConnectionUsers:
        key = (RESOURCE.c.kind, RESOURCE.c.namespace, RESOURCE.c.name)
        rows = self._session.execute(
            select(*key, func.count().over().label("total"))
            .where(self._session.tenant_rows(RESOURCE), reads_from(connection))
            .order_by(*key)
            .limit(limit)
        ).all()
        first = tuple(ConnectionUser(Kind(row.kind), row.namespace, row.name) for row in rows)
        return ConnectionUsers(first=first, total=rows[0].total if rows else 0)

    def page(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        limit: int = 50,
        before: tuple[datetime, ResourceUid] | None = None,
    ) -> list[Resource]:
        statement = select(RESOURCE).where(
            self._session.tenant_rows(RESOURCE), RESOURCE.c.kind == kind.value
        )
        if namespace is not None:
            statement = statement.where(RESOURCE.c.namespace == namespace)
        for requirement in selector.requirements:
            statement = statement.where(_meets(requirement))
        if before is not None:
            statement = statement.where(tuple_(RESOURCE.c.created_at, RESOURCE.c.uid) < before)
        newest = statement.order_by(RESOURCE.c.created_at.desc(), RESOURCE.c.uid.desc())
        return [resource_of(row) for row in self._session.execute(newest.limit(limit))]

    def _by_uid(self, uid: ResourceUid) -> tuple[ColumnElement[bool], ...]:
        return (self._session.tenant_rows(RESOURCE), RESOURCE.c.uid == uid)

    def _one(self, statement: Executable, parameters: Mapping[str, object]) -> Resource | None:
        mine = {**parameters, "of_tenant": self._session.tenant_id}
        row = self._session.answer(statement, mine).fetchone()
        if row is None:
            return None
        resource = resource_of(ResourceRow._make(row))
        self._loaded[resource.uid] = resource
        return resource


def _named(kind: Kind, namespace: str, name: str) -> dict[str, object]:
    return {"of_kind": kind.value, "of_namespace": namespace, "of_name": name}


def _meets(requirement: Requirement) -> ColumnElement[bool]:
    """The labels of a row meet it, as `Requirement.admits` decides."""
    exists: ColumnElement[bool] = RESOURCE.c.labels.has_key(requirement.key)
    value: ColumnElement[str] = RESOURCE.c.labels[requirement.key].astext
    match requirement.operator:
        case Operator.IN:
            return value.in_(sorted(requirement.values))
        case Operator.NOT_IN:
            return not_(exists) | value.not_in(sorted(requirement.values))
        case Operator.EXISTS:
            return exists
        case Operator.NOT_EXISTS:
            return not_(exists)
