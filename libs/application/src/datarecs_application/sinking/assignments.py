"""What the process of a task is started with: declaration, connections and their secrets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from datarecs_application.ports.outside import SecretStore
from datarecs_application.ports.sink_leases import SinkLease
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_application.source_secrets import resolved_secrets
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.sink.definition import SinkTable
from datarecs_core.values import TenantId

Spec = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAssignment:
    """What a task needs, without secrets."""

    tenant_id: TenantId
    revision: str
    """Of the wish that was stored when the declaration was read, which is at least as new."""
    declaration: Resource
    sink: SinkTable
    connections: Mapping[str, Connection]
    """By name."""

    def frame(self) -> dict[str, JsonValue]:
        return {
            "tenant_id": str(self.tenant_id),
            "sink_uid": str(self.declaration.uid),
            "name": self.declaration.name,
            "sink": self.declaration.spec,  # type: ignore[dict-item]  # JSON, as it is stored
            "connections": {name: to_document(one) for name, one in self.connections.items()},
        }


@dataclass(frozen=True, slots=True)
class TaskSecrets:
    """The values of the secrets of an assignment, by `<connection>/<field>`."""

    values: Mapping[str, str] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """Another value has another one; it is in memory alone."""
        return sha256_hex(canonical_json(dict(self.values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """Reads declarations in the tenant of a lease."""

    unit: UnitOfWork
    secrets: SecretStore
    sink_of: Callable[[str, Spec], SinkTable]
    """The typed spec of a stored row; raises DatarecsError for one that is not readable."""
    connection_of: Callable[[str, Spec], Connection]

    def read(self, lease: SinkLease) -> SinkAssignment | None:
        """None while the declaration or one of its connections is missing.

        Raises:
            DatarecsError: this release cannot read one of them.
        """
        with self.unit.begin(lease.tenant_id) as tx:
            wished = tx.sinks.status(lease.sink_uid).wished  # before what it was made from
            declaration = tx.resources.get_by_uid(lease.sink_uid)
            if wished is None or declaration is None:
                return None
            sink = self.sink_of(declaration.name, declaration.spec)
            names = {sink.connection, *sink.catalogs}
            connections = self._connections(tx, names)
        if names != set(connections):
            return None
        return SinkAssignment(
            tenant_id=lease.tenant_id,
            revision=wished.revision,
            declaration=declaration,
            sink=sink,
            connections=connections,
        )

    def resolve(self, assignment: SinkAssignment) -> TaskSecrets:
        """The secrets as they are now. Raises DatarecsError for the first that is not usable."""
        values, failures = resolved_secrets(
            self.secrets, assignment.tenant_id, assignment.connections
        )
        for failure in failures.values():
            raise failure
        return TaskSecrets(values)

    def _connections(self, tx: Transaction, names: Collection[str]) -> dict[str, Connection]:
        stored = {
            name: tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, name)
            for name in sorted(names)
        }
        return {
            name: self.connection_of(name, one.spec)
            for name, one in stored.items()
            if one is not None
        }
