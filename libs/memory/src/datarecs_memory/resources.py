"""Twin of the resource tables: compare-and-set on rv, one change per write, sealed values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from datarecs_application.errors import ResourceExistsError
from datarecs_application.ports.resources import ConnectionUser, ConnectionUsers
from datarecs_application.ports.sealing import SecretLabel
from datarecs_core.resources.change_feed import ResourceChange
from datarecs_core.resources.changes import Op
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.resources.selector import EVERYTHING, Selector
from datarecs_core.values import ResourceUid
from datarecs_memory.scope import Scope
from datarecs_memory.store import Secret


class MemoryResources:
    """Port Resources."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        wanted = (kind, namespace, name)
        everything = self._scope.state.resources.values()
        return next(
            (one for one in everything if (one.kind, one.namespace, one.name) == wanted), None
        )

    def get_by_uids(self, uids: Collection[ResourceUid]) -> Mapping[ResourceUid, Resource]:
        return {uid: one for uid in uids if (one := self.get_by_uid(uid)) is not None}

    def get_by_uid(self, uid: ResourceUid) -> Resource | None:
        return self._scope.state.resources.get(uid)

    def for_update(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        return self.get(kind, namespace, name)

    def add(self, resource: Resource) -> None:
        if resource.tenant_id != self._scope.tenant_id:
            raise ValueError("a resource is added in a transaction of its own tenant")
        taken = self.get(resource.kind, resource.namespace, resource.name)
        if taken is not None or resource.uid in self._scope.state.resources:
            raise ResourceExistsError(
                kind=resource.kind, namespace=resource.namespace, name=resource.name
            )
        self._scope.state.resources[resource.uid] = resource

    def replace(self, resource: Resource, *, expected_rv: int) -> bool:
        stored = self.get_by_uid(resource.uid)
        if stored is None or stored.rv != expected_rv or resource.rv <= stored.rv:
            return False
        self._scope.state.resources[resource.uid] = replace(
            resource, kind=stored.kind, created_at=stored.created_at, version=stored.version + 1
        )
        return True

    def remove(self, resource: Resource, *, expected_rv: int) -> bool:
        stored = self.get_by_uid(resource.uid)
        if stored is None or stored.rv != expected_rv:
            return False
        del self._scope.state.resources[resource.uid]
        for key in [key for key in self._scope.state.secrets if key[0] == resource.uid]:
            del self._scope.state.secrets[key]
        self._scope.state.schedules.pop(resource.uid, None)
        self._scope.state.sweeps.pop(resource.uid, None)
        self._scope.state.checks.pop(resource.uid, None)
        self._scope.state.work.pop(resource.uid, None)
        self._scope.state.sinks.pop(resource.uid, None)
        for tick in [tick for tick in self._scope.state.ticks if tick[0] == resource.uid]:
            del self._scope.state.ticks[tick]
        return True

    def record_change(
        self,
        resource: Resource,
        *,
        op: str,
        changed: Sequence[str],
        actor: str,
        old_labels: Mapping[str, str] | None = None,
    ) -> None:
        change = ResourceChange(
            rv=resource.rv,
            kind=resource.kind,
            namespace=resource.namespace,
            name=resource.name,
            uid=resource.uid,
            op=Op(op),
            generation=resource.generation,
            changed=tuple(changed),
            actor=actor,
            at=self._scope.now,
            resource=resource,
            old_labels=old_labels,
        )
        self._scope.state.changes = (*self._scope.state.changes, change)
        self._scope.wake()

    def changes_of(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        limit: int,
        before: int | None = None,
    ) -> list[ResourceChange]:
        wanted = (kind, namespace, name)
        changes = [
            one
            for one in self._scope.state.changes
            if (one.kind, one.namespace, one.name) == wanted and (before is None or one.rv < before)
        ]
        return sorted(changes, key=lambda one: one.rv, reverse=True)[:limit]

    def hold(self, kind: Kind, namespace: str, names: Iterable[str]) -> None:
        """Nothing to do: transactions run one after another."""

    def users_of(self, connection: str, *, limit: int) -> ConnectionUsers:
        users = sorted(
            ConnectionUser(one.kind, one.namespace, one.name)
            for one in self._scope.state.resources.values()
            if reads_from(one, connection)
        )
        return ConnectionUsers(first=tuple(users[:limit]), total=len(users))

    def page(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        limit: int = 50,
        before: tuple[datetime, ResourceUid] | None = None,
    ) -> list[Resource]:
        resources = [
            one
            for one in self._scope.state.resources.values()
            if one.kind is kind
            and namespace in {None, one.namespace}
            and selector.matches(one.labels)
            and (before is None or (one.created_at, one.uid) < before)
        ]
        return sorted(resources, key=lambda one: (one.created_at, one.uid), reverse=True)[:limit]


def reads_from(one: Resource, connection: str) -> bool:
    """Whether a capture, a source of a job, or a sink or table of it, names the connection."""
    match one.kind:
        case Kind.CAPTURE:
            return one.spec.get("connection") == connection
        case Kind.SINK_TABLE:
            is_source = one.spec.get("connection") == connection
            tables = (one.spec.get("tables"), [one.spec.get("dynamic")])
            return is_source or any(_names(part, "catalog", connection) for part in tables)
        case Kind.RECONCILIATION_JOB:
            return _names(one.spec.get("sources"), "connection", connection)
        case _:
            return False


def _names(parts: object, member: str, connection: str) -> bool:
    return isinstance(parts, list | tuple) and any(
        isinstance(one, Mapping) and one.get(member) == connection for one in parts
    )


class MemorySealedSecrets:
    """Port SealedSecrets."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def put(self, resource_uid: ResourceUid, field: str, key_id: str, sealed: bytes) -> None:
        self._scope.state.secrets[resource_uid, field, key_id] = Secret(
            sealed=sealed, created_at=self._scope.store.clock.now()
        )

    def live(self, resource_uid: ResourceUid, field: str) -> list[tuple[str, bytes]]:
        secrets = self._scope.state.secrets
        return [
            (label.key_id, secrets[resource_uid, field, label.key_id].sealed)
            for label in self.labels(resource_uid, field)
        ]

    def labels(self, resource_uid: ResourceUid, field: str) -> list[SecretLabel]:
        now = self._scope.store.clock.now()
        labels = [
            SecretLabel(key_id=key_id, created_at=secret.created_at, expires_at=secret.expires_at)
            for (uid, name, key_id), secret in self._scope.state.secrets.items()
            if (uid, name) == (resource_uid, field)
            and (secret.expires_at is None or secret.expires_at > now)
        ]
        return sorted(labels, key=lambda one: (one.created_at, one.key_id), reverse=True)

    def expire(self, resource_uid: ResourceUid, field: str, key_id: str, at: datetime) -> None:
        key = (resource_uid, field, key_id)
        self._scope.state.secrets[key] = replace(self._scope.state.secrets[key], expires_at=at)

    def erase(self, resource_uid: ResourceUid) -> None:
        for key in [key for key in self._scope.state.secrets if key[0] == resource_uid]:
            del self._scope.state.secrets[key]
