"""The declaration of a comparison: a ReconciliationJob and everything below it, as in its YAML.

Field names are the YAML keys (a key that Python reserves is in the field's metadata as
`yaml`), defaults are those of spec comparison 2.3. Nothing is validated here: `jobs.validation`
and `datarecs_specs` do that, so that all faults are shown at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Bound,
    Case,
    Combine,
    CompareTo,
    DuplicatePolicy,
    EmptyPolicy,
    EmptyText,
    EngineName,
    ExtractMode,
    Float32Rule,
    Function,
    MaskRule,
    NanRule,
    NullAs,
    NullKeys,
    OnUnmatched,
    ParameterType,
    ProofMode,
    ReportFormat,
    Rounding,
    SchemaMode,
    SnapshotMode,
    SourceKind,
    StageType,
    Strategy,
    TimePrecision,
    ToleranceBase,
    ToleranceType,
    TopicEdge,
    Trim,
    UnicodeForm,
)

JsonScalar = None | bool | int | str | Decimal
OptionValue = JsonScalar | tuple["OptionValue", ...] | Mapping[str, "OptionValue"]

KIB, MIB, GIB = 1024, 1024**2, 1024**3
ALL_COLUMNS: Literal["*"] = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A declared parameter. Values become typed literals, never pasted text."""

    type: ParameterType
    many: bool = False
    """Declared as `list<type>`: 1 to 1,000 values."""
    default: OptionValue = None
    """A literal, a list of literals, or one `{{ }}` expression as text; None = required."""
    allowed: tuple[JsonScalar, ...] = ()
    """Empty means every value of the type."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """The origin of a logical column: exactly one of the two is set."""

    column: str | None = None
    """Physical name."""
    expr: str | None = None
    """One scalar expression over the source's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """How a source is read in parallel."""

    by: str = "auto"
    """`auto`, `none` or a physical column."""
    count: int | None = None
    """1 to 256; None = min(8, 2 x max_connections)."""


DEFAULT_PARTITION = Partition()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBound:
    """One end of what is read of a topic: exactly one of edge, timestamp and offsets is set."""

    edge: TopicEdge | None = None
    timestamp: str | None = None
    """The first record of a partition with this time or a later one."""
    offsets: Mapping[str, int] = field(default_factory=dict)
    """Offset of the next record by partition; other partitions have the edge."""
    table_snapshot: int | None = None
    """Of the watermark, in a run alone: the snapshot with the positions that `offsets` then has."""


EARLIEST, LATEST = TopicBound(edge=TopicEdge.EARLIEST), TopicBound(edge=TopicEdge.LATEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a source is pinned to; which fields apply depends on the source's kind."""

    mode: SnapshotMode | None = None
    """postgres: exported. None = the kind's default."""
    max_hold: timedelta = timedelta(hours=1)
    """How long an exported snapshot may be held; at most 12 h."""
    snapshot_id: int | None = None
    ref: str | None = None
    as_of: str | None = None
    start: TopicBound = field(default=EARLIEST, metadata={"yaml": "from"})
    """kafka: the first records that are read."""
    end: TopicBound = field(default=LATEST, metadata={"yaml": "to"})
    """kafka: the first records that are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a source may cost before the run ends with SOURCE_LIMIT or STATEMENT_TIMEOUT."""

    max_rows: int = 200_000_000
    max_bytes: int = 100 * GIB
    """Decoded bytes, counted while reading."""
    statement_timeout: timedelta = timedelta(minutes=15)
    """At most 12 h."""
    max_connections: int = 4
    """At most 32."""
    max_value_bytes: int = 16 * MIB
    """Of one text or binary; no field of a job, for what a task holds is the platform's matter."""
    max_key_bytes: int = 64 * KIB
    """Of the texts and binaries of one key together; no field of a job either."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """Files that the query of a file source reads, beside those of its own path."""

    path: str
    """Below the same connection."""
    kind: SourceKind | None = None
    """None: that of the source."""
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One of the 2 to 32 bodies of data; its position in the job is `source_<i>` in events."""

    name: str
    kind: SourceKind
    connection: str | None = None
    """Name of a Connection resource; None for local paths of `datarecs compare`."""
    relation: str | None = None
    query: str | None = None
    path: str | None = None
    topic: str | None = None
    """Exactly one of these four is set; files may also have a query, over the rows of the path."""
    tables: Mapping[str, SourceTable] = field(default_factory=dict)
    """Further files of the query, by the name of their table."""
    filter: str | None = None
    """A condition over the source's columns, with `:parameters`."""
    columns: Mapping[str, ColumnMapping] = field(default_factory=dict)
    """By logical name; columns not listed keep their physical name."""
    cast: Mapping[str, CanonicalType] = field(default_factory=dict)
    """By logical name."""
    timezone: str | None = None
    """IANA zone of this source's naive timestamps; never guessed."""
    partition: Partition = DEFAULT_PARTITION
    snapshot: Snapshot = Snapshot()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    """Of the kind; validated by its connector's strict model."""
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class StringRules:
    trim: Trim = Trim.NONE
    case: Case = Case.EXACT
    unicode: UnicodeForm = UnicodeForm.NONE
    empty: EmptyText = EmptyText.KEEP
    null: NullAs = NullAs.KEEP
    """keep or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRules:
    nan: NanRule = NanRule.EQUAL
    float32: Float32Rule = Float32Rule.EXACT
    round: int | Literal["none"] = "none"
    """0 to 18 places, half-even."""
    null: NullAs = NullAs.KEEP
    """keep or zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampRules:
    precision: TimePrecision = TimePrecision.EXACT
    rounding: Rounding = Rounding.TRUNCATE


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRules:
    arrays: ArrayRule = ArrayRule.ORDERED


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRules:
    keys: NullKeys = NullKeys.GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRules:
    """Rules of one column; None keeps the rules of its type."""

    trim: Trim | None = None
    case: Case | None = None
    unicode: UnicodeForm | None = None
    empty: EmptyText | None = None
    null: NullAs | None = None
    round: int | Literal["none"] | None = None
    nan: NanRule | None = None
    float32: Float32Rule | None = None
    precision: TimePrecision | None = None
    rounding: Rounding | None = None
    arrays: ArrayRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize:
    """Declared relaxations; the defaults are strict equality (D26)."""

    strings: StringRules = StringRules()
    numbers: NumberRules = NumberRules()
    timestamps: TimestampRules = TimestampRules()
    json: JsonRules = JsonRules()
    nulls: NullRules = NullRules()
    columns: Mapping[str, ColumnRules] = field(default_factory=dict)
    """By logical column; wins over the rules of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPolicy:
    mode: SchemaMode = SchemaMode.STRICT
    order: bool = False
    nullability: bool = False
    ignore: tuple[str, ...] = ()
    equivalences: tuple[tuple[CanonicalType, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """A declared bound inside which different values still agree."""

    type: ToleranceType
    value: Decimal | timedelta | None = None
    """A decimal for ABSOLUTE and PERCENTAGE (percent), a length for DURATION, None for EXACT."""
    base: ToleranceBase = ToleranceBase.REFERENCE
    """PERCENTAGE alone."""


EXACTLY = (Tolerance(type=ToleranceType.EXACT),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One part of the group key; a bare name in YAML is name and column at once."""

    name: str
    column: str | None = None
    """Logical column; None = the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """In which units a measure counts: each is compared and added up separately."""

    column: str
    """Logical column that holds the unit or currency of a row; a text in every source."""
    values: tuple[str, ...] = ()
    """Units under the measure's tolerances."""
    tolerances: Mapping[str, tuple[Tolerance, ...]] = field(default_factory=dict)
    """By unit, instead of the measure's."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every distinguished unit, in the order of the job."""
        return tuple(dict.fromkeys((*self.values, *self.tolerances)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    name: str
    column: str | None = None
    """Logical column; None = the name, and for `count` the rows themselves."""
    function: Function | None = None
    """None = sum in aggregate stages, value elsewhere."""
    tolerances: tuple[Tolerance, ...] = EXACTLY
    combine: Combine = Combine.ALL
    bound: Bound = Bound.INCLUSIVE
    map: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By source: value to value, both as canonical text; acts before the cast."""
    map_strict: bool = False
    """Values that a source's map does not list are INVALID instead of passing."""
    unit: Unit | None = None
    """None: all rows count in one unit, and may be added up."""
    adds_up: bool | None = None
    """Whether totals of the measure are shown; None: `comparison.planning.additivity` decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureDefaults:
    """Settings of `"*"` for the columns of one canonical type."""

    tolerances: tuple[Tolerance, ...] = EXACTLY
    combine: Combine = Combine.ALL
    bound: Bound = Bound.INCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    from_stage: str
    only: Literal["differing"] = "differing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarnAt:
    """Warning WARN_AT above any of these; percentages are of rows_compared."""

    outside_percent: Decimal | None = None
    unmatched_percent: Decimal | None = None
    gap: Mapping[str, Decimal] = field(default_factory=dict)
    """By measure: largest |gap|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """Limits of `acceptance`, all inclusive; every declared one must hold. Never the verdict."""

    max_outside: int | None = None
    """Matched groups with any measure outside."""
    max_outside_percent: Decimal | None = None
    max_unmatched: int | None = None
    max_unmatched_percent: Decimal | None = None
    max_gap: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirm:
    """Read differing keys again after a wait, for rows in flight."""

    after: timedelta
    attempts: int = 2
    max_keys: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One comparison over all sources: the unit of pass and fail."""

    name: str
    type: StageType
    dimensions: tuple[Dimension, ...] = ()
    measures: tuple[Measure, ...] | Literal["*"] = ()
    except_: tuple[str, ...] = field(default=(), metadata={"yaml": "except"})
    """Logical columns that `"*"` leaves out."""
    measure_defaults: Mapping[CanonicalType, MeasureDefaults] = field(default_factory=dict)
    where: str | None = None
    """A condition over logical columns."""
    compare_to: CompareTo = CompareTo.REFERENCE
    reference: str | None = None
    """A source's name; None = the job's reference."""
    on_unmatched: OnUnmatched = OnUnmatched.CONTINUE
    warn_at: WarnAt | None = None
    accept: Accept | None = None
    scope: Scope | None = None
    duplicates: DuplicatePolicy | None = None
    """Row stages; None = the job's policy."""
    confirm: Confirm | None = None
    queries: Mapping[str, str] = field(default_factory=dict)
    """custom_sql: one SELECT per source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaks:
    """How many differences are stored and shown, and for how long."""

    max_rows: int = 1_000_000
    """Per stage; 0 to 10,000,000. Counts are always complete."""
    sample_per_class: int = 50
    retention: timedelta = timedelta(days=30)
    mask: Mapping[str, MaskRule] = field(default_factory=dict)
    """By logical column."""
    deltas: bool = True
    """Also store WITHIN rows, so that tighter tolerances can be judged later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    breaks: Breaks = Breaks()
    reports: tuple[ReportFormat, ...] = (ReportFormat.HTML, ReportFormat.JSON)


LEAST_MEMORY = GIB
"""Of a run: half is Java's heap, which Spark starts with no less of, and the kernel's part joins
rows of any width with one thread."""
MOST_MEMORY = 256 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How, never what: no field here changes a number, so none is part of the spec hash."""

    engine: EngineName = EngineName.SPARK
    proof: ProofMode = ProofMode.COUNTS
    strategy: Strategy = Strategy.AUTO
    extract: ExtractMode = ExtractMode.AUTO
    memory: int = 2 * GIB
    """Bytes; `LEAST_MEMORY` to `MOST_MEMORY`."""
    spill: int = 20 * GIB
    """Bytes; at most 1 TiB."""
    partitions: int | Literal["auto"] = "auto"
    deadline: timedelta = timedelta(hours=1)
    """1 min to 24 h, over all attempts."""
    resume: bool = True
    attempts: int = 3
    retry_on: tuple[str, ...] = ()
    """Of CRASHED, QUERY_FAILED, UNKNOWN."""
    priority: int = 5


DEFAULT_EXECUTION = Execution()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationJob:
    """The job's spec together with the name of its resource."""

    name: str
    sources: tuple[Source, ...]
    stages: tuple[Stage, ...]
    description: str = ""
    owner: str = ""
    timezone: str = "UTC"
    """Zone of `run.date`."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    reference: str | None = None
    """A source's name; None = the first source."""
    normalize: Normalize = Normalize()
    duplicates: DuplicatePolicy = DuplicatePolicy.MULTISET
    empty: EmptyPolicy = EmptyPolicy.WARN
    schema: SchemaPolicy = SchemaPolicy()
    results: Results = Results()
    execution: Execution = DEFAULT_EXECUTION

    @property
    def reference_source(self) -> str:
        return self.reference or self.sources[0].name

    def source_index(self, name: str) -> int:
        """Position of a source by name.

        Raises:
            ValueError: the job has no such source.
        """
        return [source.name for source in self.sources].index(name)
