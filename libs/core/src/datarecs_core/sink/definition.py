"""The declared SinkTable: which topics land in which tables, and how often.

One SinkTable is one lineage: a consumer group, a control topic, a coordinator and its tables.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

MIB = 1024 * 1024
MOST_TOPICS = 64
MOST_TABLES = 200
MOST_TASKS = 32
LEAST_INTERVAL = timedelta(seconds=1)
LONGEST_INTERVAL = timedelta(days=1)


class SinkMode(StrEnum):
    APPEND = "append"


class ValueFormat(StrEnum):
    """What the value of a record is."""

    JSON = "json"


class MetadataColumns(StrEnum):
    """Columns with the place of a record in its topic."""

    NONE = "none"
    OFFSETS = "offsets"
    """`_kafka_topic`, `_kafka_partition`, `_kafka_offset`, `_kafka_timestamp`."""
    ALL = "all"
    """Also `_kafka_key` and `_kafka_headers`."""


class StartAt(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


class Tolerance(StrEnum):
    """What becomes of a record that cannot be written."""

    NONE = "none"
    """The sink stops at it."""
    DEAD_LETTER = "dead_letter"
    """It goes to the topic of dead letters, in the transaction of the vote that passes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRule:
    """Which values of the routing field go to a table; exactly one member is set."""

    equals: str | None = None
    any_of: tuple[str, ...] = ()
    prefix: str | None = None

    def matches(self, value: str) -> bool:
        if self.equals is not None:
            return value == self.equals
        if self.prefix is not None:
            return value.startswith(self.prefix)
        return value in self.any_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTarget:
    """A table that records land in."""

    catalog: str
    """Name of a Connection of type iceberg."""
    namespace: tuple[str, ...]
    name: str
    route: RouteRule | None = None
    """None: every record, where the sink has no routing field."""

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPolicy:
    interval: timedelta = timedelta(minutes=5)
    timeout: timedelta = timedelta(seconds=30)
    """How long the coordinator waits for votes; then it commits what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    tolerance: Tolerance = Tolerance.NONE
    max_in_a_row: int = 10
    """Of dead letters, of one partition; one more stops the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTable:
    """Spec of the kind SinkTable."""

    connection: str
    """Name of a Connection of type kafka."""
    topics: tuple[str, ...]
    """Exact names; the coordinator runs where partition 0 of the first one is read."""
    tables: tuple[SinkTarget, ...]
    route: str | None = None
    """Field of the value that decides between tables, as a dotted path."""
    value: ValueFormat = ValueFormat.JSON
    mode: SinkMode = SinkMode.APPEND
    id_columns: tuple[str, ...] = ()
    auto_create: bool = False
    partition_by: tuple[str, ...] = ()
    """Of created tables: `col`, `day(col)`, `bucket(16, col)`, `truncate(4, col)`."""
    metadata_columns: MetadataColumns = MetadataColumns.OFFSETS
    start: StartAt | datetime = StartAt.EARLIEST
    """Where a partition is begun that has no accepted position: a datetime is the time of the
    first record."""
    commit: CommitPolicy = field(default_factory=CommitPolicy)
    tasks: int = 1
    memory: int = 256 * MIB
    """Bytes of buffered records per task, 64 MiB to 8 GiB."""
    errors: ErrorPolicy = field(default_factory=ErrorPolicy)
