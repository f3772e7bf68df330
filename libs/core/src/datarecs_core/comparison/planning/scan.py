"""What to read and which frozen version of it: schemas, pins and scans.

A scan is data: connectors and engines execute it, plans print and hash it. Files in pins are named
relative to their root, so that a proof does not depend on one machine.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_core.jobs.definition import (
    DEFAULT_LIMITS,
    DEFAULT_PARTITION,
    Limits,
    OptionValue,
    Partition,
    SourceTable,
)
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import Function, SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column as its source declares it."""

    name: str
    """Physical name with case and blanks; of an expression its logical name."""
    type: CanonicalType
    native_type: str = ""
    """The source's type name, for plans and reports."""
    nullable: bool = True
    groups_exactly: bool = False
    """The source's SQL can compare, group and order the values like canonical values, and
    distinguish values without canonical form from the others."""
    needs_precision: bool = False
    """Its times have digits that its writers fill differently: a job declares which ones count."""
    distinct: int | None = None
    """How many values the source's statistics expect; None without statistics."""
    is_metadata: bool = False
    """Describes the place of a row instead of its content: compared only where a job names it."""
    date_format: str = ""
    """How a text file writes the dates or times of the column; empty for ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Disjoint ranges of a source that together hold every row, each for one reader."""

    count: int = 1
    """At most; a source with fewer values or blocks has fewer."""
    at_once: int = 1
    """Readers at the same time; ranges beyond them wait for one to end."""
    by: str | None = None
    """A physical column; None = the places where rows are stored."""
    reason: str = ""
    """Why there are not more of them, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNote:
    """The first value of a text file that decided against a better type, or that is INVALID."""

    column: str
    """Physical name."""
    message: str
    """Names value, file and line; left out for masked columns."""
    hint: str
    """What to declare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSchema:
    """Columns in the source's order. The same name twice is allowed unless the job uses it."""

    columns: tuple[SourceColumn, ...]
    expressions: tuple[SourceColumn, ...] = ()
    """One per declared `columns.L.expr` of the job, named by its logical name, typed by the
    source."""
    undelivered: tuple[tuple[str, str], ...] = ()
    """Columns that are not delivered, by physical name, with the source's name for their type: they
    matter only if the job names them. Those that are not in `columns` either have no canonical
    type."""
    estimated_rows: int | None = None
    estimated_bytes: int | None = None
    ranges: Ranges | None = None
    """How many readers deliver the rows; None where engines or connectors read files."""
    read_as: tuple[str, ...] = ()
    """What was recognised or left out while a text file was read, for plans and reports."""
    notes: tuple[ColumnNote, ...] = ()
    record_fields: tuple[tuple[str, str], ...] = ()
    """Of a lake table: names of fields of records, with the column that a sink writes them to."""
    identifier: tuple[str, ...] = ()
    """Columns that the source declares as the key of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSnapshot:
    """Pin of a PostgreSQL source: one READ ONLY REPEATABLE READ transaction, kept open."""

    snapshot_id: str
    """For `SET TRANSACTION SNAPSHOT`; has no meaning after its transaction has ended, so it is not
    part of the proof."""
    system_id: str
    database: str
    snapshot: str
    """`pg_current_snapshot()` as text."""
    lsn: str
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedSnapshot:
    """The snapshot of the catalogue that a pin equals: an earlier capture has its statistics."""

    table_id: UUID
    snapshot_id: int
    committed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedFile:
    path: str
    """Relative to the list's root, with `/`."""
    size_bytes: int
    etag: str | None = None
    sha256: str | None = None
    """64 hexadecimal characters; set where the store has no etag."""
    rows: int | None = None
    table: str | None = None
    """The table of the source's query that it belongs to; None for the source's own path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """Pin of a file source: every file that is read, sorted by path; checked again after it."""

    root: str
    """Where relative paths begin: a directory or a bucket URL; not part of the proof."""
    files: tuple[PinnedFile, ...]
    taken_at: datetime
    catalogued: CataloguedSnapshot | None = None
    """None: no snapshot of the catalogue has exactly these files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEnd:
    """Up to where a sink has read one partition."""

    topic: str
    partition: int
    offset: int
    """Of the next record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCommit:
    """The newest snapshot of a sink in the history of a table's snapshot."""

    snapshot_id: int
    ends: tuple[TopicEnd, ...] | None
    """None: the snapshot does not state them, because they would be too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """Pin of a lake table: one snapshot under one schema; both are immutable while they exist."""

    catalog: str
    """The catalog of the table: its kind and name, no credential and no absolute path."""
    table: str
    """Name in the catalog, with namespace."""
    table_uuid: str
    """A table dropped and made again under its name has another one."""
    snapshot_id: int | None
    """None for a table that has no snapshot: it has no rows either."""
    schema_id: int
    """Names and types of the columns."""
    taken_at: datetime
    catalogued: CataloguedSnapshot | None = None
    """None: the catalogue has no such snapshot."""
    sink: SinkCommit | None = None
    """None: no snapshot of a sink is in the history of the snapshot; not part of the proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets of one partition, `[start, end)`; not every offset has a record."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """Pin of a topic: offsets of committed records, which do not change while they exist."""

    cluster_id: str
    topic: str
    topic_id: str
    """A topic that was deleted and created again under its name has another one."""
    ranges: tuple[OffsetRange, ...]
    """One per partition, in their order."""
    taken_at: datetime
    table_snapshot: int | None = None
    """The snapshot of an Iceberg table that states the ends; None: no watermark."""


Pin = ExportedSnapshot | FileList | TableSnapshot | TopicOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanColumn:
    """One column to deliver: exactly one of physical name and expression is set."""

    name: str
    """Logical name, under which engines read the column."""
    physical: str | None = None
    expression: str | None = None
    type: CanonicalType
    """As the source delivers it, before any cast."""


GROUP_ROWS = "$n"
"""In an extract of groups: how many rows of the source a group has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """A number that a source computes for each of its groups."""

    function: Function
    """COUNT of values that are not NULL, SUM, MIN or MAX."""
    column: str
    """Logical."""

    @property
    def name(self) -> str:
        """Of its column in an extract."""
        return f"${self.function}.{self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """What a source sends instead of its rows: one row per group, with its row count."""

    dimensions: tuple[str, ...]
    """Logical columns."""
    partials: tuple[Partial, ...] = ()
    where: str | None = None
    """Of the stage; rows beside it are counted and belong to no group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Some values of some columns, as canonical text; None is NULL."""

    columns: tuple[str, ...]
    """Logical."""
    values: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """Rows that no stage reads and a source need not send; it still counts them."""

    where: str | None = None
    """A condition that every stage has."""
    keys: Keys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """Rows of a scan in the store of the run as Parquet, columns by logical name."""

    root: str
    files: tuple[PinnedFile, ...]
    rows: int
    decoded_bytes: int
    invalid_columns: tuple[str, ...] = ()
    """Logical columns with a companion binary column `$invalid.<name>`: not NULL where the value
    has no canonical form, and then the raw bytes."""
    source_rows: int | None = None
    """Rows of the source after its filter, where it omitted or grouped some; None = `rows`."""

    @property
    def is_partial(self) -> bool:
        """Whether the source omitted some of its rows, or grouped them."""
        return self.source_rows is not None

    @property
    def all_rows(self) -> int:
        """Rows of the source after its filter, delivered or not."""
        return self.rows if self.source_rows is None else self.source_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Everything a reader of one source needs, besides the credentials of its connection."""

    source: str
    index: int
    """Position in the job: `source_<index>` in events, bit `index` of presence masks."""
    kind: SourceKind
    connection: str | None = None
    relation: str | None = None
    query: str | None = None
    path: str | None = None
    tables: tuple[tuple[str, SourceTable], ...] = field(default=(), hash=False)
    """Further files of the query; sorted by name."""
    columns: tuple[ScanColumn, ...]
    """Only what some stage needs, in the order of logical names."""
    schema: SourceSchema
    filter: str | None = None
    """In the language of expressions; with parameters as typed literals."""
    timezone: str | None = None
    partition: Partition = DEFAULT_PARTITION
    max_hold: timedelta = timedelta(hours=1)
    options: tuple[tuple[str, OptionValue], ...] = field(default=(), hash=False)
    """Sorted by name."""
    limits: Limits = DEFAULT_LIMITS
    pin: Pin
    groups: Groups | None = None
    """Set where one stage reads groups; the others read rows."""
    only: Only | None = None
    extract: Extract | None = None
    """Set once the rows are in the store of the run; engines read it instead of the source."""

    def column(self, name: str) -> ScanColumn:
        """The column of a logical name.

        Raises:
            KeyError: the scan does not deliver it.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)
