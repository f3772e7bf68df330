"""The closed words of a job file: kinds, rules, policies, stage types, functions.

Separate from the definition so that plans and engines share them without its records.
"""

from enum import StrEnum


class SourceKind(StrEnum):
    POSTGRES = "postgres"
    JDBC = "jdbc"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ICEBERG = "iceberg"
    DELTA = "delta"
    KAFKA = "kafka"
    EXTRACT = "extract"


READ_AS_FILES = frozenset(
    {
        SourceKind.PARQUET,
        SourceKind.CSV,
        SourceKind.JSON,
        SourceKind.ICEBERG,
        SourceKind.KAFKA,
    }
)
"""Kinds without a server that computes: their rows are read here, and their queries run here."""


class ParameterType(StrEnum):
    """`list<T>` is the same type with `Parameter.many`."""

    TEXT = "text"
    INT = "int"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOL = "bool"


class SnapshotMode(StrEnum):
    EXPORTED = "exported"
    STATEMENT = "statement"
    UNPINNED = "unpinned"


class TopicEdge(StrEnum):
    """Where a topic begins and where it ends for a reader of committed records."""

    EARLIEST = "earliest"
    LATEST = "latest"
    WATERMARK = "watermark"
    """Up to where the job's Iceberg table has the records, as the sink that writes it states."""


class Trim(StrEnum):
    NONE = "none"
    BOTH = "both"
    LEFT = "left"
    RIGHT = "right"


class Case(StrEnum):
    EXACT = "exact"
    FOLD = "fold"


class UnicodeForm(StrEnum):
    NONE = "none"
    NFC = "NFC"
    NFKC = "NFKC"


class EmptyText(StrEnum):
    KEEP = "keep"
    NULL = "null"


class NullAs(StrEnum):
    KEEP = "keep"
    ZERO = "zero"
    """Numbers alone."""
    EMPTY = "empty"
    """Text alone."""


class NanRule(StrEnum):
    EQUAL = "equal"
    UNEQUAL = "unequal"


class Float32Rule(StrEnum):
    EXACT = "exact"
    SHORTEST = "shortest"


class TimePrecision(StrEnum):
    EXACT = "exact"
    SECONDS = "s"
    MILLIS = "ms"
    MICROS = "us"
    DECLARED_MIN = "declared_min"


class Rounding(StrEnum):
    TRUNCATE = "truncate"
    HALF_EVEN = "half_even"


class ArrayRule(StrEnum):
    ORDERED = "ordered"
    SET = "set"


class NullKeys(StrEnum):
    GROUP = "group"
    REJECT = "reject"
    EXCLUDE = "exclude"


class DuplicatePolicy(StrEnum):
    MULTISET = "multiset"
    ERROR = "error"
    AGGREGATE = "aggregate"


class EmptyPolicy(StrEnum):
    WARN = "warn"
    ERROR = "error"
    OK = "ok"


class SchemaMode(StrEnum):
    STRICT = "strict"
    COMPATIBLE = "compatible"
    NAMES = "names"


class StageType(StrEnum):
    COUNTS = "counts"
    SCHEMA = "schema"
    AGGREGATE = "aggregate"
    ROW = "row"
    DIGEST = "digest"
    CUSTOM_SQL = "custom_sql"


class Function(StrEnum):
    VALUE = "value"
    COUNT = "count"
    COUNT_DISTINCT = "count_distinct"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"


class ToleranceType(StrEnum):
    EXACT = "EXACT"
    ABSOLUTE = "ABSOLUTE"
    PERCENTAGE = "PERCENTAGE"
    DURATION = "DURATION"


class ToleranceBase(StrEnum):
    """What a PERCENTAGE is a percentage of."""

    REFERENCE = "reference"
    MAX_ABS = "max_abs"
    MIN_ABS = "min_abs"


class Combine(StrEnum):
    ALL = "all"
    ANY = "any"


class Bound(StrEnum):
    INCLUSIVE = "inclusive"
    EXCLUSIVE = "exclusive"


class CompareTo(StrEnum):
    REFERENCE = "reference"
    ALL_PAIRS = "all_pairs"
    SPREAD = "spread"


class OnUnmatched(StrEnum):
    CONTINUE = "continue"
    STOP = "stop"
    ESCALATE = "escalate"


class MaskRule(StrEnum):
    HASH = "hash"
    REDACT = "redact"


class ReportFormat(StrEnum):
    HTML = "html"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"


class EngineName(StrEnum):
    SPARK = "spark"


class ProofMode(StrEnum):
    COUNTS = "counts"
    ROWS = "rows"


class Strategy(StrEnum):
    """How the work of a stage is saved; no number depends on it."""

    AUTO = "auto"
    """Per stage the quickest of the others that is possible, by its kind and expected rows."""
    FULL = "full"
    """All rows are read and compared at once."""
    NARROW = "narrow"
    """Row stages read every row once before, so that equal ones are not joined."""
    FINGERPRINT = "fingerprint"
    """No stored fingerprints exist yet, so stages are compared in full."""
    PUSHDOWN = "pushdown"
    """Databases return groups instead of rows, where these are exact."""


class ExtractMode(StrEnum):
    AUTO = "auto"
    MATERIALIZE = "materialize"
    STREAM = "stream"
