"""Topics on the session's broker, and sources over them."""

import gc
import json
import logging
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from datarecs_application.ports.comparing import Connector, HeldPin, Read
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import Scan, ScanColumn, SourceSchema, TopicOffsets
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    KafkaConfig,
    KafkaSecurity,
)
from datarecs_testing.stack import KafkaBroker

Record = tuple[str | None, object]
"""Key, and a value as JSON; bytes as they are, None for a tombstone."""


@dataclass(frozen=True)
class Topics:
    """Writes topics of the session's broker and opens sources over them."""

    broker: KafkaBroker
    surroundings: Surroundings
    admin: KafkaAdminClient

    def create(self, partitions: int = 2, name: str | None = None, **configs: str) -> str:
        name = name or f"t-{secrets.token_hex(6)}"
        self.admin.create_topics(
            {
                name: {
                    "num_partitions": partitions,
                    "replication_factor": 1,
                    "configs": {key.replace("_", "."): value for key, value in configs.items()},
                }
            },
            wait_for_metadata=True,
        )
        return name

    def write(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, **settings: object
    ) -> None:
        settings = {"acks": "all", **self.broker.access.settings(), **settings}
        is_transaction = "transactional_id" in settings
        with KafkaProducer(**settings) as producer:
            if is_transaction:
                producer.init_transactions()
                producer.begin_transaction()
            for key, value in records:
                producer.send(
                    topic,
                    key=None if key is None else key.encode(),
                    value=_written(value),
                    partition=partition,
                )
            producer.flush()
            if is_transaction and settings.get("client_id") == "aborts":
                producer.abort_transaction()
            elif is_transaction:
                producer.commit_transaction()

    @property
    def config(self) -> KafkaConfig:
        return KafkaConfig(
            brokers=(self.broker.bootstrap,),
            security=KafkaSecurity.SASL_PLAINTEXT,
            user=self.broker.username,
        )

    def connector(
        self, source: Source, *, password: str | None = None, config: KafkaConfig | None = None
    ) -> Connector:
        connection = Connection(type=ConnectionType.KAFKA, config=config or self.config)
        login = {"password": self.broker.password if password is None else password}
        return open_connector(source, connection, login, surroundings=self.surroundings)

    def open(self, topic: str, **fields: object) -> "OpenTopic":
        """A source, pinned and described."""
        source = topic_source(topic, **fields)
        connector = self.connector(source)
        held = connector.pin(source)
        schema = connector.describe(source, held.pin)
        return OpenTopic(connector=connector, source=source, held=held, schema=schema)


def topic_source(topic: str, **fields: object) -> Source:
    return Source(name="landing", kind=SourceKind.KAFKA, connection="k", topic=topic, **fields)  # type: ignore[arg-type]  # fields of Source


@dataclass(frozen=True)
class OpenTopic:
    connector: Connector
    source: Source
    held: HeldPin
    schema: SourceSchema

    @property
    def pin(self) -> TopicOffsets:
        assert isinstance(self.held.pin, TopicOffsets)
        return self.held.pin

    @property
    def bounds(self) -> list[tuple[int, int]]:
        return [(each.start, each.end) for each in self.pin.ranges]

    @property
    def types(self) -> dict[str, str]:
        """Of columns of the value."""
        return {c.name: str(c.type) for c in self.schema.columns if not c.is_metadata}

    def scan(self, *names: str) -> Scan:
        return Scan(
            source=self.source.name,
            index=0,
            kind=self.source.kind,
            connection=self.source.connection,
            columns=tuple(
                ScanColumn(name=column.name, physical=column.name, type=column.type)
                for column in self.schema.columns
                if column.name in names or not names
            ),
            schema=self.schema,
            filter=self.source.filter,
            pin=self.pin,
            limits=self.source.limits,
        )

    def rows(self, *names: str) -> list[tuple[object, ...]]:
        return list(self.connector.rows(self.scan(*names)))

    def extracted(self, directory: Path, *names: str) -> list[Mapping[str, object]]:
        scan = self.connector.extract(self.scan(*names), str(directory), _ignore)
        assert scan.extract is not None
        table = pq.read_table([directory / each.path for each in scan.extract.files])
        assert table.num_rows == scan.extract.rows
        columns = [name for name in table.column_names if not name.startswith("$invalid.")]
        rows: list[Mapping[str, object]] = table.select(columns).to_pylist()
        return rows


def _written(value: object) -> bytes | None:
    match value:
        case None | bytes():
            return value
        case _:
            return json.dumps(value).encode()


def _ignore(_read: Read) -> None:
    """Ignore progress."""


@pytest.fixture
def topics(kafka_broker: KafkaBroker, surroundings: Surroundings) -> Iterator[Topics]:
    with KafkaAdminClient(**kafka_broker.access.settings()) as admin:
        yield Topics(kafka_broker, surroundings, admin)


@pytest.fixture
def careless_sockets() -> Iterator[None]:
    """kafka-python does not close a socket with a refused or incomplete connection.

    Its log records hold it through the traceback, so pytest gets none; the rest is collected
    here, before the warning of an unclosed socket is an error again. See also the hook below.
    """
    library = logging.getLogger("kafka")
    library.propagate = False
    yield
    library.propagate = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Sockets of the library may be collected in the middle of a test, not only after it."""
    if "careless_sockets" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
