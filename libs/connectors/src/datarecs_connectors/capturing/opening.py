"""One line per type of connection: what captures it.

A module is imported when a connection needs it, as in `registry`.
"""

# ruff: noqa: PLC0415 - as said above

from collections.abc import Mapping
from typing import assert_never

from datarecs_application.ports.capturing import CaptureSource
from datarecs_connectors.errors import SourceUnsupportedError
from datarecs_connectors.registry import Surroundings, connected_lake, connected_tree
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


def open_capture_source(
    name: str, connection: Connection, secrets: Mapping[str, str], surroundings: Surroundings
) -> CaptureSource:
    """What captures the tables of a connection; the caller closes it.

    Args:
        name: of the connection, for messages.
        connection: the declared one.
        secrets: resolved values of the connection's `auth`, by field.
        surroundings: roots, egress policy, clock.

    Raises:
        ConnectionFailedError: and other errors of opening a source.
    """
    match connection.config:
        case FilesConfig() | ObjectStoreConfig() as config:
            from datarecs_connectors.capturing.counted_tree import CountedTree
            from datarecs_connectors.capturing.files import FileCaptureSource

            root = Source(name=name, kind=SourceKind.PARQUET, path="")
            tree = connected_tree(root, connection, secrets, surroundings)
            return FileCaptureSource(
                tree=CountedTree(tree=tree),
                uri=config.root if isinstance(config, FilesConfig) else config.url,
                now=surroundings.now,
            )
        case PostgresConfig() as config:
            from datarecs_connectors.capturing.postgres import PostgresCaptureSource
            from datarecs_connectors.postgres import PostgresConnector

            connector = PostgresConnector(
                source=name,
                config=config,
                password=secrets.get("password", ""),
                policy=surroundings.policy,
                stop=surroundings.stop,
            )
            return PostgresCaptureSource(connector=connector)
        case IcebergConfig():
            catalog = Source(name=name, kind=SourceKind.ICEBERG)
            lake = connected_lake(catalog, connection, secrets, surroundings)
            from datarecs_connectors.capturing.iceberg import IcebergCaptureSource

            return IcebergCaptureSource(catalog=lake.catalog)
        case KafkaConfig():
            raise SourceUnsupportedError(
                name, "topics are not captured; compare them as sources, or land them with a sink"
            )
        case never:
            assert_never(never)
