"""One line per kind of source: which connector opens it.

A connector is imported when a source needs it: each uses different libraries, and reading two files
needs neither a database driver nor the reader of another format.
"""

# ruff: noqa: PLC0415 - as said above

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from datarecs_application.ports.comparing import Connector
from datarecs_application.stopping import Stopping
from datarecs_connectors.catalogued_files import CataloguedTree
from datarecs_connectors.errors import (
    ConnectionFailedError,
    PartMissingError,
    SourceUnsupportedError,
)
from datarecs_connectors.file_tree import Allowed, FileTree
from datarecs_connectors.locations import Places
from datarecs_connectors.private_places import PrivatePlaces
from datarecs_connectors.querying import QueriedFiles, Readable, table_source
from datarecs_connectors.source_trees import SourceTree
from datarecs_core.captures.catalogued import CataloguedTable
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.egress.addresses import Policy
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    FilesConfig,
    IcebergConfig,
    KafkaConfig,
    ObjectStoreConfig,
    PostgresConfig,
)
from datarecs_core.resources.object_urls import ObjectUrl, is_object_url
from datarecs_core.resources.store_servers import BucketAddress

if TYPE_CHECKING:
    from datarecs_connectors.avro.registries import SchemaRegistry
    from datarecs_connectors.iceberg.connector import IcebergConnector
    from datarecs_connectors.kafka.connector import KafkaConnector
    from datarecs_connectors.object_stores.tree import ObjectTree

O = TypeVar("O", bound=BaseModel)  # noqa: E741  options


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the environment allows when sources are opened."""

    roots: tuple[Path, ...]
    """Folders that may contain file sources of the tenant."""
    policy: Policy
    """Addresses that connections may use."""
    now: Callable[[], datetime]
    any_path: bool = False
    """True in `datarecs compare`: file sources without a connection, with the user's own rights."""
    excluded: tuple[Path, ...] = ()
    """Folders and files of the platform, which no source reads, also inside the roots."""
    platform_bucket: BucketAddress | None = None
    """The bucket of the platform's artefacts, which no source reads."""
    stop: Stopping = field(default_factory=Stopping)
    """Signal that ends reads in progress."""
    spill_bytes: int | None = None
    """Most disk for intermediate data of one query over files; None: the free disk."""
    catalogued: CataloguedTable | None = None
    """What the catalogue knows of the table of the source to open."""

    @property
    def private_places(self) -> PrivatePlaces:
        """The roots; empty with a user's own rights."""
        return PrivatePlaces() if self.any_path else PrivatePlaces.of(self.excluded)


def open_connector(
    source: Source,
    connection: Connection | None,
    secrets: Mapping[str, str],
    *,
    surroundings: Surroundings,
) -> Connector:
    """The connector of a source over its connection.

    Args:
        source: of the job.
        connection: the declared one; None for local paths of `datarecs compare`.
        secrets: resolved values of the connection's `auth`, by field.
        surroundings: roots, egress policy, clock.

    Raises:
        SourceUnsupportedError: no connector for the kind, or bad options.
        ConnectionFailedError: the connection does not serve the source.
    """
    stop = surroundings.stop
    match source.kind:
        case SourceKind.POSTGRES:
            if connection is None or not isinstance(connection.config, PostgresConfig):
                raise ConnectionFailedError(source.name, "it needs a connection of type postgres")
            from datarecs_connectors.postgres import PostgresConnector

            return PostgresConnector(
                source=source.name,
                config=connection.config,
                password=secrets.get("password", ""),
                policy=surroundings.policy,
                stop=stop,
            )
        case SourceKind.PARQUET | SourceKind.CSV | SourceKind.JSON:

            def reader(files: Source) -> Readable:
                return _reader(files, connected_tree(files, connection, secrets, surroundings))

            tables = {name: reader(table_source(source, name)) for name in source.tables}
            tree = connected_tree(source, connection, secrets, surroundings)
            if surroundings.catalogued is not None:
                root = _bucket_root(connection)
                tree = CataloguedTree(tree=tree, table=surroundings.catalogued, root=root)
            files = _reader(source, tree)
            return QueriedFiles(files, stop, tables, surroundings.spill_bytes)
        case SourceKind.ICEBERG:
            return QueriedFiles(
                connected_lake(source, connection, secrets, surroundings),
                stop,
                spill_bytes=surroundings.spill_bytes,
            )
        case SourceKind.KAFKA:
            return QueriedFiles(
                _topic(source, connection, secrets, surroundings),
                stop,
                spill_bytes=surroundings.spill_bytes,
            )
        case _:
            raise SourceUnsupportedError(source.name, f"{source.kind} sources cannot be read yet")


def _bucket_root(connection: Connection | None) -> ObjectUrl | None:
    config = None if connection is None else connection.config
    return ObjectUrl.parse(config.url) if isinstance(config, ObjectStoreConfig) else None


def _reader(source: Source, tree: SourceTree) -> Readable:
    """The reader of one kind of files."""
    match source.kind:
        case SourceKind.PARQUET:
            from datarecs_connectors.parquet import ParquetConnector, ParquetOptions

            return ParquetConnector(tree=tree, options=_options(source, ParquetOptions))
        case SourceKind.CSV:
            from datarecs_connectors.csv import CsvConnector
            from datarecs_connectors.csv_options import CsvOptions

            return CsvConnector(tree=tree, options=_options(source, CsvOptions))
        case _:
            from datarecs_connectors.json_lines import JsonConnector, JsonOptions

            return JsonConnector(tree=tree, options=_options(source, JsonOptions))


def open_tree(source: Source, *, surroundings: Surroundings) -> SourceTree:
    """The files of a path without a connection, with the user's own rights.

    Raises what `open_connector` raises.
    """
    return connected_tree(source, None, {}, surroundings)


def statement_of(scan: Scan) -> str | None:
    """The SQL that reads a source, for plans; None for files."""
    if scan.kind is not SourceKind.POSTGRES:
        return None
    from datarecs_connectors.postgres_statements import statement_of as postgres_statement

    return postgres_statement(scan)


def explained_by(connector: Connector, scan: Scan) -> list[str]:
    """The server's plan for the statement of a scan; empty for files."""
    if scan.kind is not SourceKind.POSTGRES:
        return []
    from datarecs_connectors.postgres import PostgresConnector

    return connector.explain(scan) if isinstance(connector, PostgresConnector) else []


def connected_lake(
    source: Source,
    connection: Connection | None,
    secrets: Mapping[str, str],
    around: Surroundings,
) -> "IcebergConnector":
    """The tables of a catalog. Raises what `open_connector` raises."""
    if connection is None or not isinstance(connection.config, IcebergConfig):
        raise ConnectionFailedError(source.name, "it needs a connection of type iceberg")
    if find_spec("pyiceberg") is None:
        raise PartMissingError(source.name, "Iceberg tables", "iceberg")
    # Half a second of imports, and pyiceberg reads the environment while it is imported.
    from datarecs_connectors.iceberg.connector import iceberg_connector

    store = connection.config.store
    objects = None if store is None else _objects(source, store, secrets, around)
    connector = iceberg_connector(
        source.name,
        connection.config,
        secrets,
        places=Places(
            source=source.name,
            roots=around.roots,
            now=around.now,
            any_path=around.any_path,
            excluded=around.private_places,
            objects=objects,
        ),
        policy=around.policy,
    )
    return replace(connector, catalogued=around.catalogued)


def connected_tree(
    source: Source,
    connection: Connection | None,
    secrets: Mapping[str, str],
    around: Surroundings,
) -> SourceTree:
    """The files of a connection. Raises what `open_connector` raises."""
    if connection is not None and isinstance(connection.config, FilesConfig):
        allowed = Allowed(
            source=source.name, roots=around.roots, now=around.now, excluded=around.private_places
        )
        return FileTree.below(connection.config.root, allowed)
    if connection is not None and isinstance(connection.config, ObjectStoreConfig):
        return _objects(source, connection.config, secrets, around)
    if connection is None and around.any_path:
        if is_object_url(source.path or ""):
            return _objects(source, None, {}, around)
        return FileTree(source=source.name, root=around.roots[0], now=around.now, any_path=True)
    raise ConnectionFailedError(source.name, "it needs a connection of type files or object_store")


def _topic(
    source: Source,
    connection: Connection | None,
    secrets: Mapping[str, str],
    around: Surroundings,
) -> "KafkaConnector":
    """A topic of a cluster. Raises what `open_connector` raises."""
    if connection is None or not isinstance(connection.config, KafkaConfig):
        raise ConnectionFailedError(source.name, "it needs a connection of type kafka")
    if find_spec("kafka") is None:
        raise PartMissingError(source.name, "Kafka topics", "kafka")
    from datarecs_connectors.kafka.cluster import Cluster
    from datarecs_connectors.kafka.connector import KafkaConnector
    from datarecs_connectors.kafka.options import TopicOptions

    cluster = Cluster(
        source=source.name,
        config=connection.config,
        password=secrets.get("password", ""),
        policy=around.policy,
    )
    return KafkaConnector(
        cluster=cluster,
        options=_options(source, TopicOptions),
        now=around.now,
        registry=connected_registry(source.name, connection.config, secrets, around),
        stop=around.stop,
    )


def connected_registry(
    source: str, config: KafkaConfig, secrets: Mapping[str, str], around: Surroundings
) -> "SchemaRegistry | None":
    """The schema registry of a cluster, if it has one; nothing is requested yet."""
    if config.registry is None:
        return None
    from datarecs_connectors.avro.registries import MOST_BYTES, SchemaRegistry
    from datarecs_connectors.http_json import JsonServer

    return SchemaRegistry(
        server=JsonServer(source=source, policy=around.policy, max_bytes=MOST_BYTES),
        config=config.registry,
        now=around.now,
        password=secrets.get("registry_password", ""),
    )


def _objects(
    source: Source,
    config: ObjectStoreConfig | None,
    secrets: Mapping[str, str],
    around: Surroundings,
) -> "ObjectTree":
    if find_spec("obstore") is None:
        raise PartMissingError(source.name, "object stores", "stores")
    from datarecs_connectors.object_stores.opening import StoreRules, open_ambient, open_connected
    from datarecs_connectors.object_stores.tree import ObjectTree

    if config is None:
        root, bucket = open_ambient(source.name, source.path or "")
        return ObjectTree(bucket=bucket, root=root, now=around.now)
    rules = StoreRules(
        policy=around.policy,
        is_guarded=not around.any_path,
        platform_bucket=around.platform_bucket,
    )
    bucket = open_connected(source.name, config, secrets, rules)
    return ObjectTree(bucket=bucket, root=ObjectUrl.parse(config.url), now=around.now)


def _options(source: Source, model: type[O]) -> O:
    try:
        return model.model_validate(dict(source.options))
    except ValidationError as cause:
        first = cause.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SourceUnsupportedError(source.name, f"options.{where}: {first['msg']}") from cause
