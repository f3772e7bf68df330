"""Whether the connections of a sink serve it, and whether its tables are free.

Separate from the controller, because the words of each fault are here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from datarecs_application.controllers import Snapshot
from datarecs_core.captures.naming import joined_name, split_name
from datarecs_core.errors.sink import SinkCode
from datarecs_core.hashing import canonical_json, sha256_hex
from datarecs_core.resources.catalog_identity import CatalogIdentity, catalog_identity
from datarecs_core.resources.conditions import Condition, ConditionType, Truth
from datarecs_core.resources.connection import CatalogType, ConnectionType
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Resource
from datarecs_core.sink.definition import (
    BY_TOPIC,
    DynamicTables,
    SinkTable,
    SinkTarget,
    ValueFormat,
)
from datarecs_core.sink.dynamic import topic_tables

_REVISION_CHARACTERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFault:
    """Why a sink cannot run with the objects it names."""

    reason: str
    """CamelCase, for programs."""
    message: str

    def conditions(self) -> tuple[Condition, ...]:
        """ReferencesResolved and Ready."""
        return tuple(
            Condition(type=name, status=Truth.FALSE, reason=self.reason, message=self.message)
            for name in (ConditionType.REFERENCES_RESOLVED, ConditionType.READY)
        )


def reference_fault(seen: Snapshot, resource: Resource, sink: SinkTable) -> ReferenceFault | None:
    """The first fault of the connections, then of the tables; None if there is none."""
    return connection_fault(seen, sink) or _taken(seen, resource, sink)


def connection_fault(seen: Snapshot, sink: SinkTable) -> ReferenceFault | None:
    """The first fault of the connections; None if all of them serve the sink."""
    return _source_fault(seen, sink) or next(_catalog_faults(seen, sink), None)


def connection_names(sink: SinkTable) -> Sequence[str]:
    """Every connection that the sink uses, each once."""
    return tuple(dict.fromkeys((sink.connection, *sink.catalogs)))


def revision(seen: Snapshot, resource: Resource, sink: SinkTable) -> str:
    """Changes with the declaration and its connections, and with nothing else."""
    used = (seen.connection(name) for name in connection_names(sink))
    parts = [resource.spec_hash, *(f"{one.uid} {one.spec_hash}" for one in used if one)]
    return sha256_hex(canonical_json(parts))[:_REVISION_CHARACTERS]


def _source_fault(seen: Snapshot, sink: SinkTable) -> ReferenceFault | None:
    connection = seen.connection(sink.connection)
    if connection is None:
        return _missing(sink.connection)
    if connection.spec.get("type") != ConnectionType.KAFKA:
        return _mismatch(connection, "topics are read", ConnectionType.KAFKA)
    config = connection.spec.get("config")
    has_registry = isinstance(config, Mapping) and "registry" in config
    if sink.value is ValueFormat.AVRO and not has_registry:
        return ReferenceFault(
            reason="RegistryMissing",
            message=f"connection {connection.name} has no schema registry, which records in Avro"
            " need; write config.registry: {url: URL} in it",
        )
    return None


def _catalog_faults(seen: Snapshot, sink: SinkTable) -> Iterator[ReferenceFault]:
    for name in sink.catalogs:
        connection = seen.connection(name)
        if connection is None:
            yield _missing(name)
        elif connection.spec.get("type") != ConnectionType.ICEBERG:
            yield _mismatch(connection, "tables are written", ConnectionType.ICEBERG)
        elif _catalog_type(connection) == CatalogType.HADOOP:
            yield ReferenceFault(
                reason="CatalogUnsupported",
                message=f"{SinkCode.CATALOG_UNSUPPORTED.name}: connection {name} has a hadoop"
                " catalog, which cannot refuse a commit that is based on an old state."
                f" {SinkCode.CATALOG_UNSUPPORTED.entry.remedy}",
            )


def _missing(name: str) -> ReferenceFault:
    return ReferenceFault(
        reason="ConnectionMissing",
        message=f"connection {name} does not exist in namespace {DEFAULT_NAMESPACE}; apply it, or"
        " name another one in the sink",
    )


def _mismatch(connection: Resource, use: str, wanted: ConnectionType) -> ReferenceFault:
    return ReferenceFault(
        reason="ConnectionMismatch",
        message=f"connection {connection.name} is of type {connection.spec.get('type')}, and"
        f" {use} through a connection of type {wanted}; name another one in the sink",
    )


def _catalog_type(connection: Resource) -> object:
    config = connection.spec.get("config")
    catalog = config.get("catalog") if isinstance(config, Mapping) else None
    return catalog.get("type") if isinstance(catalog, Mapping) else None


def _taken(seen: Snapshot, resource: Resource, sink: SinkTable) -> ReferenceFault | None:
    """Another SinkTable has a table of this one; the older of both keeps it."""
    named = topic_tables(sink.dynamic, sink.topics) if sink.dynamic is not None else ()
    wanted: dict[_Place, SinkTarget] = {}
    for target in (*sink.tables, *named):
        first = wanted.setdefault(_place(seen, target), target)
        if first.catalog != target.catalog:
            return _twice(first, target)
    older = [
        one
        for one in seen.sinks()
        if (one.created_at, one.uid) < (resource.created_at, resource.uid)
    ]
    for other in sorted(older, key=lambda one: (one.created_at, one.uid)):
        for target in _targets(other):
            place = _place(seen, target)
            if place in wanted:
                return _taken_by(other, target.catalog, wanted[place])
    return None


def _taken_by(other: Resource, catalog: str, target: SinkTarget) -> ReferenceFault:
    """`catalog` is the connection by which the other sink reaches the table."""
    code = SinkCode.SINK_TABLE_TAKEN
    way = "" if catalog == target.catalog else f" too, by connection {catalog} to the same catalog"
    return ReferenceFault(
        reason="SinkTableTaken",
        message=f"{code.name}: SinkTable {other.namespace}/{other.name} writes to table {target} of"
        f" connection {target.catalog}{way}. {code.entry.remedy}",
    )


def _twice(first: SinkTarget, again: SinkTarget) -> ReferenceFault:
    code = SinkCode.SINK_TABLE_TAKEN
    return ReferenceFault(
        reason="SinkTableTaken",
        message=f"{code.name}: the sink names table {first} by connections {first.catalog} and"
        f" {again.catalog}, which lead to the same catalog. Name it once",
    )


_Place = tuple[CatalogIdentity, str, str]


def _place(seen: Snapshot, target: SinkTarget) -> _Place:
    """Two connections may lead to one catalog; one that is not there stands for itself."""
    connection = seen.connection(target.catalog)
    identity = None if connection is None else catalog_identity(connection.spec)
    return identity or (target.catalog,), joined_name(target.namespace), target.name


def _targets(other: Resource) -> Iterator[SinkTarget]:
    """The tables of a stored declaration, also of one that this release cannot read in full."""
    yield from _topic_tables(other)
    tables = other.spec.get("tables")
    for one in tables if isinstance(tables, list | tuple) else ():
        if isinstance(one, Mapping):
            yield SinkTarget(
                catalog=str(one.get("catalog")),
                namespace=split_name(str(one.get("namespace"))) or (),
                name=str(one.get("name")),
            )


def _topic_tables(other: Resource) -> Iterator[SinkTarget]:
    """Those that a stored declaration names by its topics. What records name is not known."""
    dynamic, topics = other.spec.get("dynamic"), other.spec.get("topics")
    if not isinstance(dynamic, Mapping) or not isinstance(topics, list | tuple):
        return
    if dynamic.get("from") != BY_TOPIC:
        return
    namespace = dynamic.get("namespace")
    rule = DynamicTables(
        catalog=str(dynamic.get("catalog")),
        namespace=() if namespace is None else split_name(str(namespace)) or (),
        lower_case=dynamic.get("lower_case") is not False,
    )
    yield from topic_tables(rule, map(str, topics))
