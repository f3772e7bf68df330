"""The declared SinkTable: which topics land in which tables, and how often.

One SinkTable is one lineage: a consumer group, a control topic, a coordinator and its tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

MIB = 1024 * 1024
MOST_TOPICS = 64
MOST_TABLES = 200
MOST_TASKS = 32
MOST_PROOFS = 200
"""Jobs in `verify`."""
BY_TOPIC = "topic"
"""How a declaration says that topics name their tables."""
_OFFSETS = ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")
LEAST_INTERVAL = timedelta(seconds=1)
LONGEST_INTERVAL = timedelta(days=1)


class SinkMode(StrEnum):
    APPEND = "append"
    """A row for each record."""
    UPSERT = "upsert"
    """The newest record of each key."""
    CDC = "cdc"
    """As upsert; a field of each record says whether it inserts, updates or deletes."""


class RowChange(StrEnum):
    """What a record does to the rows of its key."""

    INSERT = "insert"
    """Nothing: the row is added."""
    UPDATE = "update"
    """They are replaced."""
    DELETE = "delete"
    """They are removed."""


class Tombstones(StrEnum):
    """What a record without a value does in the modes upsert and cdc."""

    IGNORE = "ignore"
    DELETE = "delete"
    """It deletes the row of its key, which is a JSON object with the id columns."""


class ValueFormat(StrEnum):
    """What the value of a record is."""

    JSON = "json"
    """An object."""
    AVRO = "avro"
    """A record, by a schema of the registry of the connection."""
    TEXT = "text"
    """UTF-8, in the one column `value`."""
    BYTES = "bytes"
    """The one column `value`."""

    @property
    def has_fields(self) -> bool:
        """Whether a field of the value can decide something."""
        return self in (ValueFormat.JSON, ValueFormat.AVRO)


class Evolution(StrEnum):
    """What the sink changes in the schema of a table for records that need it."""

    NONE = "none"
    """Fields without a column are left out."""
    ADD = "add"
    """They become new optional columns, also inside of structs."""
    FULL = "full"
    """Also int to long, float to double, a wider decimal, and required to optional."""


class MetadataColumns(StrEnum):
    """Columns with the place of a record in its topic."""

    NONE = "none"
    OFFSETS = "offsets"
    """`_kafka_topic`, `_kafka_partition`, `_kafka_offset`, `_kafka_timestamp`."""
    ALL = "all"
    """Also `_kafka_key` and `_kafka_headers`."""

    @property
    def columns(self) -> tuple[str, ...]:
        match self:
            case MetadataColumns.NONE:
                return ()
            case MetadataColumns.OFFSETS:
                return _OFFSETS
            case MetadataColumns.ALL:
                return (*_OFFSETS, "_kafka_key", "_kafka_headers")


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
class DynamicTables:
    """Tables that the records name, as `name` or `namespace.name`."""

    catalog: str
    """Name of a Connection of type iceberg."""
    namespace: tuple[str, ...] = ()
    """Of every table; empty: each name begins with its namespace."""
    path: str | None = None
    """Field of the value with the name, as a dotted path; None: the topic is the name."""
    lower_case: bool = True
    """Names are made lower case."""
    max_tables: int = MOST_TABLES
    """Of one task since its start; records of one more are bad."""


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
    max_per_thousand: int = 50
    """Dead letters among the last 1,000 records of one partition; one more stops the sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcRule:
    """Which change a record is, by one of its fields."""

    path: str
    """Of the field in the value, dotted."""
    map: Mapping[str, RowChange] = field(default_factory=dict)
    """By the text of the field; empty: I, C and R insert, U updates, D deletes, by its first
    letter in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTable:
    """Spec of the kind SinkTable."""

    connection: str
    """Name of a Connection of type kafka."""
    topics: tuple[str, ...]
    """Exact names; the coordinator runs where partition 0 of the first one is read."""
    tables: tuple[SinkTarget, ...] = ()
    """Empty with `dynamic`."""
    dynamic: DynamicTables | None = None
    route: str | None = None
    """Field of the value that decides between tables, as a dotted path."""
    value: ValueFormat = ValueFormat.JSON
    mode: SinkMode = SinkMode.APPEND
    cdc: CdcRule | None = None
    """In the mode cdc."""
    tombstones: Tombstones | None = None
    """None: delete in the modes upsert and cdc; the mode append has no use for them."""
    id_columns: tuple[str, ...] = ()
    """Of created tables, and the key of the modes upsert and cdc; there, empty: the identifier
    fields of the table."""
    auto_create: bool = False
    evolve: Evolution = Evolution.NONE
    case_insensitive: bool = False
    """A field goes to the column of its name in another case, where no column has its case."""
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
    verify: tuple[str, ...] = ()
    """ReconciliationJobs of its namespace that compare its topics with its tables; their newest
    runs are the condition Proven."""

    @property
    def catalogs(self) -> tuple[str, ...]:
        """The connections of type iceberg that it names, each once."""
        names = [] if self.dynamic is None else [self.dynamic.catalog]
        return tuple(dict.fromkeys((*names, *(target.catalog for target in self.tables))))
