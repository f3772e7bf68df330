"""The shape of a sink: topics of a Kafka connection, and the Iceberg tables they are written to.

Rules of core make the final check. Modes, formats and columns of later releases are unknown here:
they are refused, never ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from datarecs_core.errors.faults import Fault, Gap, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.sink.bad_records import WINDOW
from datarecs_core.sink.definition import (
    BY_TOPIC,
    LEAST_INTERVAL,
    LONGEST_INTERVAL,
    MIB,
    MOST_PROOFS,
    MOST_TABLES,
    MOST_TASKS,
    MOST_TOPICS,
    CdcRule,
    CommitPolicy,
    DynamicTables,
    ErrorPolicy,
    Evolution,
    MetadataColumns,
    RouteRule,
    RowChange,
    SinkMode,
    SinkTable,
    SinkTarget,
    Tolerance,
    Tombstones,
    ValueFormat,
)
from datarecs_core.sink.rules import sink_faults
from datarecs_specs.capture_shape import NAMESPACE
from datarecs_specs.nodes import MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Field, ListOf, MapOf, Record
from datarecs_specs.shapes import (
    FLAG,
    NAME_TEXT,
    Length,
    Pattern,
    Size,
    Text,
    Whole,
    Word,
)
from datarecs_specs.sink_parts import One, Start, single
from datarecs_specs.topic_names import TOPIC_NAME

_LEAST_MEMORY, _MOST_MEMORY = 64 * MIB, 8 * 1024 * MIB
_MOST_COLUMNS = 20
_MOST_VALUES = 100
_MOST_IN_A_ROW = 1_000_000
_MOST_CHARACTERS = 255
_TERM = Text(
    most=_MOST_CHARACTERS,
    pattern=Pattern(
        regex=r"[^()\s,]+|(year|month|day|hour)\([^()\s,]+\)"
        r"|(bucket|truncate)\([1-9][0-9]{0,8}, ?[^()\s,]+\)",
        words="a column, or year(col), month(col), day(col), hour(col), bucket(16, col) or "
        "truncate(4, col)",
        code=SpecCode.BAD_TEXT,
    ),
)
_COLUMN = Text(most=_MOST_CHARACTERS, normal=False)
_VALUE = Text(most=_MOST_CHARACTERS, normal=False)


class _NamedBy(StrEnum):
    TOPIC = BY_TOPIC


_NAME_FIELD = single(
    "field",
    Text(most=_MOST_CHARACTERS, normal=False),
    title="the field that names the table",
    doc="field of the value with the name, as a dotted path such as `order.table`",
)
_NAME_WORD = Word(words=_NamedBy)


@dataclass(frozen=True, slots=True)
class _NameSource:
    """The word `topic`, which is no path, or a mapping with the field of the value."""

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        if isinstance(node, MapNode):
            return _NAME_FIELD.read(node, at, reading)
        word = _NAME_WORD.read(node, at, reading)
        return word if isinstance(word, Gap) else None

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if value is _NamedBy.TOPIC:
            return _NAME_WORD.write(value, minimal=minimal)
        return _NAME_FIELD.write(value, minimal=minimal)

    def schema(self) -> JsonSchema:
        return {"anyOf": [_NAME_WORD.schema(), _NAME_FIELD.schema()]}


def _check_source(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    if "from" not in values:
        reading.fault(
            Fault(
                code=SpecCode.MISSING_FIELD,
                path=(*at, "from"),
                message="'from' is missing",
                hint="write from: topic, or from: {field: NAME}",
                place=Place.MISSING,
            )
        )


_DYNAMIC = Record(
    title="tables that the records name",
    model=DynamicTables,
    check=_check_source,
    fields=(
        Field(
            name="catalog",
            shape=NAME_TEXT,
            doc="name of a connection of type iceberg, in the namespace default",
            stand_in=Gap(),
        ),
        Field(
            name="namespace",
            shape=NAMESPACE,
            doc="namespace of every table; without it each name begins with one",
            get=lambda rule: rule.namespace or None,
        ),
        Field(
            name="from",
            attribute="path",
            shape=_NameSource(),
            doc="topic: the topic is the name; {field: NAME}: a field of the value has it",
            get=lambda rule: rule.path or _NamedBy.TOPIC,
        ),
        Field(name="lower_case", shape=FLAG, doc="true makes names lower case"),
        Field(
            name="max_tables",
            shape=Whole(least=1, most=MOST_TABLES),
            doc="tables of one task since its start; records of one more are bad",
        ),
    ),
)


def _check_tables(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    written = [name for name in ("tables", "dynamic") if name in values]
    if len(written) == 1:
        return
    reading.fault(
        Fault(
            code=SpecCode.FIELD_GIVEN_TWICE if written else SpecCode.MISSING_FIELD,
            path=(*at, written[-1] if written else "tables"),
            others=tuple((*at, name) for name in written[:-1]),
            message="set exactly one of table, tables and dynamic",
            place=Place.KEY if written else Place.MISSING,
        )
    )


_RULES = ("equals", "in", "prefix")


def _check_rule(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    written = [name for name in _RULES if name in values]
    if len(written) != 1:
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE if written else SpecCode.MISSING_FIELD,
                path=(*at, written[-1] if written else _RULES[0]),
                others=tuple((*at, name) for name in written[:-1]),
                message="set exactly one of equals, in and prefix",
                place=Place.KEY if written else Place.MISSING,
            )
        )


_RULE = Record(
    title="which values of the routing field go to a table",
    model=RouteRule,
    check=_check_rule,
    fields=(
        Field(name="equals", shape=_VALUE, doc="this value"),
        Field(
            name="in",
            attribute="any_of",
            shape=ListOf(item=_VALUE, least=1, most=_MOST_VALUES),
            doc="any of these values",
            get=lambda rule: rule.any_of or None,
        ),
        Field(name="prefix", shape=_VALUE, doc="values that begin so"),
    ),
)
_TARGET = Record(
    title="a table that records are written to",
    model=SinkTarget,
    fields=(
        Field(
            name="catalog",
            shape=NAME_TEXT,
            doc="name of a connection of type iceberg, in the namespace default",
            stand_in=Gap(),
        ),
        Field(name="namespace", shape=NAMESPACE, doc="namespace of the table", stand_in=Gap()),
        Field(
            name="name",
            shape=Text(most=_MOST_CHARACTERS, normal=False),
            doc="name of the table in its namespace",
            stand_in=Gap(),
        ),
        Field(name="route", shape=_RULE, doc="with a routing field: which values go here"),
    ),
)


def _with_timeout(values: Mapping[str, object]) -> Mapping[str, object]:
    """A commit that says nothing else waits no longer than its interval."""
    interval = values.get("interval")
    if "timeout" in values or not isinstance(interval, timedelta):
        return values
    return {**values, "timeout": min(interval, CommitPolicy().timeout)}


_COMMIT = Record(
    title="how often a snapshot is added",
    model=CommitPolicy,
    complete=_with_timeout,
    fields=(
        Field(
            name="interval",
            shape=Length(least=LEAST_INTERVAL, most=LONGEST_INTERVAL),
            doc="from one commit to the next",
        ),
        Field(
            name="timeout",
            shape=Length(least=LEAST_INTERVAL, most=LONGEST_INTERVAL),
            doc="how long a commit waits for all partitions; at most the interval",
        ),
    ),
)
_CDC = Record(
    title="which change a record is",
    model=CdcRule,
    fields=(
        Field(
            name="field",
            attribute="path",
            shape=Text(most=_MOST_CHARACTERS, normal=False),
            doc="field of the value that says it, as a dotted path such as `meta.op`",
            stand_in=Gap(),
        ),
        Field(
            name="map",
            shape=MapOf(key=_VALUE, value=Word(words=RowChange), most=_MOST_VALUES),
            doc="change for each text of the field; without it the first letter decides: I, C and "
            "R insert, U updates, D deletes",
        ),
    ),
)
_ERRORS = Record(
    title="what becomes of records that cannot be written",
    model=ErrorPolicy,
    fields=(
        Field(
            name="tolerance",
            shape=Word(words=Tolerance),
            doc="none stops at the record; dead_letter sends it to the topic of dead letters",
        ),
        Field(
            name="max_in_a_row",
            shape=Whole(least=1, most=_MOST_IN_A_ROW),
            doc="dead letters of one partition in a row; one more stops the sink",
        ),
        Field(
            name="max_per_thousand",
            shape=Whole(least=1, most=WINDOW),
            doc="dead letters among the last 1,000 records of one partition; one more stops the "
            "sink; 1000: none are too many",
        ),
    ),
)
SINK_TABLE = Record(
    title="spec of a SinkTable",
    model=SinkTable,
    check=_check_tables,
    fields=(
        Field(
            name="connection",
            shape=NAME_TEXT,
            doc="name of a connection of type kafka, in the namespace default",
            stand_in=Gap(),
        ),
        Field(
            name="topics",
            shape=ListOf(item=TOPIC_NAME, least=1, most=MOST_TOPICS),
            doc="exact names of the topics",
            stand_in=(),
        ),
        Field(
            name="tables",
            shape=ListOf(item=_TARGET, least=1, most=MOST_TABLES),
            doc="the tables that records are written to; `table` is the form for one",
            short_forms={"table": One(_TARGET)},
            get=lambda sink: sink.tables or None,
        ),
        Field(name="dynamic", shape=_DYNAMIC, doc="instead of tables: the records name them"),
        Field(
            name="route",
            shape=single(
                "field",
                Text(most=_MOST_CHARACTERS, normal=False),
                title="how records are divided among the tables",
                doc="field of the value that decides, as a dotted path such as `order.type`",
            ),
            doc="without it every record goes to every table",
        ),
        Field(
            name="decode",
            attribute="value",
            shape=single(
                "value",
                Word(words=ValueFormat),
                title="the format of records",
                doc="format of the value",
                default=ValueFormat.JSON,
            ),
            doc="the format of records",
        ),
        Field(
            name="mode",
            shape=Word(words=SinkMode),
            doc="append adds a row for each record; upsert has the newest record of each key; cdc "
            "inserts, updates and deletes as a field of the record says",
        ),
        Field(name="cdc", shape=_CDC, doc="with mode cdc: which change a record is"),
        Field(
            name="tombstones",
            shape=Word(words=Tombstones),
            doc="with mode upsert or cdc: what a record without a value does to the row of its "
            "key; without this field it deletes the row",
        ),
        Field(
            name="id_columns",
            shape=ListOf(item=_COLUMN, most=_MOST_COLUMNS),
            doc="the key of a row in the modes upsert and cdc, without it the identifier fields of "
            "the table; created tables have them as identifier fields",
        ),
        Field(
            name="auto_create",
            shape=FLAG,
            doc="true creates a missing table from the first records",
        ),
        Field(
            name="evolve",
            shape=Word(words=Evolution),
            doc="add makes columns of new fields; full also widens types and makes columns"
            " optional",
        ),
        Field(
            name="case_insensitive",
            shape=FLAG,
            doc="true matches names of fields and columns in any case",
        ),
        Field(
            name="partition_by",
            shape=ListOf(item=_TERM, most=_MOST_COLUMNS),
            doc="with auto_create: partition of created tables, such as day(created_at)",
        ),
        Field(
            name="metadata_columns",
            shape=Word(words=MetadataColumns),
            doc="columns with the place of a record in its topic; all adds its key and headers",
        ),
        Field(
            name="start",
            shape=Start(),
            doc="where a partition is begun that nothing was read of",
        ),
        Field(name="commit", shape=_COMMIT, doc="how often a snapshot is added"),
        Field(
            name="tasks",
            shape=Whole(least=1, most=MOST_TASKS),
            doc="processes that read; more than there are partitions stay idle",
        ),
        Field(
            name="files",
            attribute="memory",
            shape=single(
                "memory",
                Size(least=_LEAST_MEMORY, most=_MOST_MEMORY),
                title="how files are written",
                doc="records that one task has in memory before they are written to files",
                default=256 * MIB,
            ),
            doc="how files are written",
        ),
        Field(name="errors", shape=_ERRORS, doc="what becomes of records that cannot be written"),
        Field(
            name="verify",
            shape=ListOf(item=NAME_TEXT, least=1, most=MOST_PROOFS),
            doc="names of jobs in the namespace of the sink that compare its topics with its "
            "tables; their newest runs are the condition Proven",
            get=lambda sink: sink.verify or None,
        ),
    ),
)


def sink_meaning(spec: object, reading: Reading) -> None:
    """The rules of core over what could be read of a declaration."""
    if not isinstance(spec, SinkTable):
        return
    broken = [fault.path for fault in reading.faults if not fault.warning]
    for fault in sink_faults(spec):
        placed = _as_written(fault, reading)
        if not any(_repeats(one, broken) for one in {fault.path, placed.path}):
            reading.faults.append(placed)


def _as_written(fault: Fault, reading: Reading) -> Fault:
    """A rule names `tables[0]`; where the short form was written, the place is `table`."""
    start = ("spec", "tables", 0)
    is_short = ("spec", "table") in reading.spots and fault.path[: len(start)] == start
    if not is_short:
        return fault
    return replace(fault, path=("spec", "table", *fault.path[len(start) :]))


def _repeats(path: Path, broken: list[Path]) -> bool:
    """Whether a fault of shape is there, above or below: it may be the cause."""
    return any(path[: len(one)] == one or one[: len(path)] == path for one in broken)
