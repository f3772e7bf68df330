"""iceberg-sink as a process, for tests: a topic, a lake in a folder, and what was declared."""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import psutil  # type: ignore[import-untyped]  # publishes no types
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish
from datarecs_core.values import ResourceUid
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, RESOURCES, SINK
from datarecs_postgres.unit_of_work import PostgresTransaction, PostgresUnitOfWork
from datarecs_runtime.clock import UuidV7Ids
from datarecs_specs.documents import decode_json
from datarecs_specs.kinds import canonical_spec
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE, Lake, a_lake
from datarecs_testing.schema_registry import Registry
from datarecs_testing.service_process import ServiceProcess
from datarecs_testing.stack import KafkaBroker

MODULE = "datarecs_iceberg_sink"
PASSWORD = f"DATARECS_CONN_{A_TENANT.hex.upper()}_KAFKA"
REGISTRY_PASSWORD = f"DATARECS_CONN_{A_TENANT.hex.upper()}_REGISTRY"
CATALOG_PASSWORD = f"DATARECS_CONN_{A_TENANT.hex.upper()}_CATALOG"
TABLE = "orders"


@dataclass(slots=True, kw_only=True)
class SinkHouse:
    """One tenant with a topic, a lake, and its two connections."""

    database: PreparedDatabase
    broker: KafkaBroker
    folder: Path
    stack: ExitStack
    """Closes what was opened."""
    partitions: int = 2
    topic: str = field(default_factory=lambda: f"orders-{secrets.token_hex(4)}")
    catalog: str | None = None
    """URL of the database of the catalog; None: SQLite."""
    registry: Registry | None = None
    """Of schemas, with a login."""
    lake: Lake = field(init=False)

    def __post_init__(self) -> None:
        self.lake = a_lake(self.folder / "lake", self.stack, database=self.catalog)
        with closing(KafkaAdminClient(**self.broker.access.settings())) as admin:
            topic = {"num_partitions": self.partitions, "replication_factor": 1}
            admin.create_topics({self.topic: topic}, wait_for_metadata=True)
        self.declare(Kind.CONNECTION, "events", self._cluster())
        self.declare(Kind.CONNECTION, "lake", self._lake())

    @property
    def settings(self) -> dict[str, str]:
        """Of a process; each has a scratch folder of its own."""
        return {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": self.database.url(SINK),
            "DATARECS_SINK__SCRATCH_DIR": str(self.folder / f"scratch-{secrets.token_hex(4)}"),
            "DATARECS_FILES__ROOTS": f'["{self.lake.folder}"]',
            "DATARECS_FILES__OWNER": str(A_TENANT),
            PASSWORD: self.broker.password,
            REGISTRY_PASSWORD: "" if self.registry is None else self.registry.login[1],
            CATALOG_PASSWORD: urlsplit(self.catalog or "").password or "",
        }

    def _cluster(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "brokers": self.broker.bootstrap.split(","),
            "security": "SASL_PLAINTEXT",
            "user": self.broker.username,
        }
        auth = {"password": f"env:{PASSWORD}"}
        if self.registry is not None:
            config["registry"] = {"url": self.registry.url, "username": self.registry.login[0]}
            auth["registry_password"] = f"env:{REGISTRY_PASSWORD}"
        return {"type": "kafka", "config": config, "auth": auth}

    def _lake(self) -> dict[str, Any]:
        catalog: dict[str, Any] = {"type": "sql", "name": "lake"}
        if self.catalog is None:
            return {"type": "iceberg", "config": {"catalog": catalog | {"sqlite": "catalog.db"}}}
        server = urlsplit(self.catalog)
        postgres = {
            "host": server.hostname,
            "port": server.port,
            "database": server.path.removeprefix("/"),
            "user": server.username,
            "sslmode": "disable",
        }
        config = {"catalog": catalog | {"postgres": postgres}}
        auth = {"password": f"env:{CATALOG_PASSWORD}"}
        return {"type": "iceberg", "config": config, "auth": auth}

    def sink_spec(self, **changes: object) -> dict[str, object]:
        return {
            "connection": "events",
            "topics": [self.topic],
            "table": {"catalog": "lake", "namespace": NAMESPACE, "name": TABLE},
            "auto_create": True,
            "commit": {"interval": "PT1S", "timeout": "PT1S"},
            **changes,
        }

    def declare(self, kind: Kind, name: str, spec: Mapping[str, object]) -> ResourceUid:
        """Store a declaration as core-api does."""
        with self.transaction(API, feed=1) as tx:
            stored = a_resource(kind=kind, name=name, spec=_stored(kind, spec), rv=tx.next_rv())
            tx.resources.add(stored)
        return stored.uid

    def declare_again(self, uid: ResourceUid, spec: Mapping[str, object]) -> None:
        """Another spec of a sink; its task sees it with the next revision."""
        with self.transaction(API, feed=1) as tx:
            before = tx.resources.get_by_uid(uid)
            assert before is not None
            after = replace(
                before,
                spec=_stored(Kind.SINK_TABLE, spec),
                generation=before.generation + 1,
                rv=tx.next_rv(),
            )
            assert tx.resources.replace(after, expected_rv=before.rv)

    def want(
        self,
        uid: ResourceUid,
        *,
        tasks: int = 1,
        wish: TaskWish = TaskWish.RUN,
        revision: str = "1",
    ) -> None:
        """As the resource-controller does."""
        with self.transaction(RESOURCES) as tx:
            tx.sinks.want(uid, SinkWish(tasks=tasks, wish=wish, revision=revision))

    def status(self, uid: ResourceUid) -> SinkStatus:
        with self.transaction(RESOURCES) as tx:
            return tx.sinks.status(uid)

    def commits(self, uid: ResourceUid) -> Sequence[CommitRecord]:
        with self.transaction(API) as tx:
            return tx.sinks.commits(uid, limit=500)

    @contextmanager
    def transaction(self, role: str, *, feed: int = 0) -> Iterator[PostgresTransaction]:
        with (
            closing(Database(self.database.url(role))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT, feed=feed) as tx,
        ):
            yield tx

    def send(self, ids: range) -> None:
        """One record for each id, over the partitions in turn."""
        self.send_values(
            json.dumps({"id": number, "name": f"order {number}"}).encode() for number in ids
        )

    def send_values(self, values: Iterable[bytes]) -> None:
        with closing(KafkaProducer(**self.broker.access.settings())) as producer:
            for number, value in enumerate(values):
                producer.send(self.topic, value, partition=number % self.partitions)
            producer.flush()

    def forget_members(self, uid: ResourceUid) -> None:
        """Remove members whose processes were killed; else the others wait 45 s for them."""
        self.broker.forget_members(f"datarecs.sink.{uid}")

    def table(self) -> Table | None:
        try:
            return self.lake.catalog.load_table(f"{NAMESPACE}.{TABLE}")
        except NoSuchTableError:
            return None

    def rows(self) -> tuple[int, int]:
        """Rows and distinct ids, as DuckDB reads the files of the table's snapshot."""
        table = self.table()
        scan = [] if table is None else table.scan().plan_files()
        files = [task.file.file_path.removeprefix("file://") for task in scan]
        if not files:
            return 0, 0
        with duckdb.connect() as database:
            (row,) = database.execute(
                "SELECT count(*), count(DISTINCT id) FROM read_parquet(?)", [files]
            ).fetchall()
        return row[0], row[1]


def _stored(kind: Kind, spec: Mapping[str, object]) -> Mapping[str, Any]:
    """The spec as core-api stores it."""
    document = {
        "apiVersion": "datarecs.io/v1",
        "kind": kind.value,
        "metadata": {"name": "any"},
        "spec": spec,
    }
    _, typed = decode_json(document).require()
    return canonical_spec(kind, typed)


def tasks_of(service: ServiceProcess) -> list[psutil.Process]:
    """The processes of tasks: children of the template."""
    below = psutil.Process(service.process.pid).children(recursive=True)
    templates = {one.ppid() for one in below} & {one.pid for one in below}
    return [one for one in below if one.ppid() in templates]


def wait_until(
    is_reached: Callable[[], bool], text: Callable[[], str], *, seconds: float = 90
) -> None:
    ends = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < ends, text()
        time.sleep(0.1)  # noqa: TID251  another process has no signal here
