"""Open the tables of a sink: each catalog with the rights and places of its own connection."""

# ruff: noqa: PLC0415 - only tables in a store need its library

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from datarecs_connectors.errors import ConnectionFailedError, PartMissingError
from datarecs_connectors.iceberg.catalogs import Catalog
from datarecs_connectors.locations import Places
from datarecs_connectors.registry import Surroundings
from datarecs_connectors.sinking.tables import IcebergSinkTables
from datarecs_core.resources.connection import Connection, IcebergConfig, ObjectStoreConfig
from datarecs_core.resources.object_urls import ObjectUrl
from datarecs_core.sink.definition import SinkTable

if TYPE_CHECKING:
    from datarecs_connectors.object_stores.tree import ObjectTree


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogConnection:
    """A declared connection and the values of its secrets."""

    connection: Connection
    secrets: Mapping[str, str] = field(default_factory=dict)
    """By the fields of `auth`."""


def open_sink_tables(
    sink: SinkTable,
    connections: Mapping[str, CatalogConnection],
    *,
    task: str,
    around: Surroundings,
) -> IcebergSinkTables:
    """The tables of a sink; nothing is requested yet.

    Args:
        sink: the declaration.
        connections: of type iceberg, by the names that the declaration uses.
        task: names the process in snapshots and files, such as `<sink name>-0`.
        around: what the environment allows.

    Raises:
        ConnectionFailedError: another type, or an address of a store that is not allowed.
        PathRefusedError: the bucket is the platform's.
    """
    return IcebergSinkTables(
        sink=sink,
        catalogs={
            name: open_writable_catalog(name, connections[name], around)
            for name in sorted(set(sink.catalogs) & connections.keys())
        },
        task=task,
        now=around.now,
        stop=around.stop,
    )


def open_writable_catalog(name: str, opened: CatalogConnection, around: Surroundings) -> Catalog:
    """A catalog whose files may be read and created. Raises what `open_sink_tables` raises."""
    config = opened.connection.config
    if not isinstance(config, IcebergConfig):
        raise ConnectionFailedError(name, "a sink needs a connection of type iceberg")
    objects = None if config.store is None else _objects(name, config.store, opened, around)
    places = Places(
        source=name,
        roots=around.roots,
        now=around.now,
        any_path=around.any_path,
        excluded=around.private_places,
        objects=objects,
    )
    return Catalog(
        source=name, config=config, secrets=opened.secrets, places=places, policy=around.policy
    )


def _objects(
    name: str, config: ObjectStoreConfig, opened: CatalogConnection, around: Surroundings
) -> "ObjectTree":
    if find_spec("obstore") is None:
        raise PartMissingError(name, "object stores", "stores")
    from datarecs_connectors.object_stores.opening import StoreRules, open_connected
    from datarecs_connectors.object_stores.tree import ObjectTree

    rules = StoreRules(
        policy=around.policy,
        is_guarded=not around.any_path,
        platform_bucket=around.platform_bucket,
        may_write=True,
    )
    bucket = open_connected(name, config, opened.secrets, rules)
    return ObjectTree(bucket=bucket, root=ObjectUrl.parse(config.url), now=around.now)
