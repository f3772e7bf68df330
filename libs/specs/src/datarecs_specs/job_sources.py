"""The shape of a job's sources: fields, snapshot and options of each kind of connector.

Separate from the rest of the job because a new kind of source changes this file and no other shape.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.comparison.values.forms import read_moment
from datarecs_core.errors.faults import Fault, Gap, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import (
    ColumnMapping,
    JsonScalar,
    Limits,
    Partition,
    Snapshot,
    Source,
    SourceTable,
)
from datarecs_core.jobs.parameters import MAX_TEXT
from datarecs_core.jobs.vocabulary import SnapshotMode, SourceKind, TopicEdge
from datarecs_core.resources.connection import source_path_fault
from datarecs_specs.kafka_shape import TopicBoundShape
from datarecs_specs.nodes import Form, ListNode, MapNode, Node, Scalar
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Field, MapOf, Record, tagged
from datarecs_specs.shapes import (
    IDENT,
    NAME_TEXT,
    SQL,
    Checked,
    Length,
    Single,
    Size,
    Text,
    TypeName,
    Whole,
    Word,
    Zone,
    wrong_type,
)
from datarecs_specs.source_options import MAX_COLUMNS, options_of
from datarecs_specs.source_tables import FILE_KINDS, FILE_PATH, declared_options, tables_field
from datarecs_specs.topic_names import TOPIC_NAME

MAX_SOURCES = 32
_KIB, _TIB = 1024, 1024**4
_INT64 = 2**63 - 1


_LITERAL_TEXT = Text(least=0, most=MAX_TEXT, lines=True, normal=False)


class Literal(Single):
    """One scalar as written: a boolean, or the source text of anything else."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> JsonScalar | Gap:
        if not isinstance(node, Scalar) or node.form is Form.NULL:
            return wrong_type(node, at, reading, "a single value")
        if node.form is Form.BOOL:
            return node.text.lower() == "true"
        if broken := _LITERAL_TEXT.broken(node.text):
            return reading.fault(Fault(code=broken[0], path=at, message=broken[1]))
        return node.text

    def plain(self, value: object) -> JsonValue:
        return value if isinstance(value, bool) else str(value)

    def schema(self) -> JsonSchema:
        return {"type": ["string", "number", "boolean"]}


class Free:
    """A value with a form that its connector checks; here only the limits of the document apply."""

    __slots__ = ()
    _literal = Literal()

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        match node:
            case Scalar():
                return self._literal.read(node, at, reading)
            case ListNode():
                items = tuple(self.read(item, at, reading) for item in node.items)
                return tuple(item for item in items if not isinstance(item, Gap))
            case MapNode():
                return _FREE_MAP.read(node, at, reading)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if isinstance(value, Mapping):
            return {str(key): self.write(item, minimal=minimal) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self.write(item, minimal=minimal) for item in value]
        return self._literal.plain(value)

    def schema(self) -> JsonSchema:
        return {}


LITERAL = Literal()
FREE = Free()
_FREE_MAP = MapOf(key=IDENT, value=FREE, most=100_000)


COLUMN = Record(
    title="a column",
    model=ColumnMapping,
    shorthand="column",
    fields=(
        Field(name="column", shape=IDENT, doc="physical name in the source"),
        Field(name="expr", shape=SQL, doc="one scalar expression; docs/expressions.md"),
    ),
)
PARTITION = Record(
    title="partition",
    model=Partition,
    shorthand="by",
    fields=(
        Field(name="by", shape=IDENT, doc="`auto`, `none` or a physical column"),
        Field(name="count", shape=Whole(least=1, most=256), doc="number of ranges"),
    ),
)
LIMITS = Record(
    title="limits of a source",
    model=Limits,
    fields=(
        Field(name="max_rows", shape=Whole(least=1, most=200_000_000), doc="rows at most"),
        Field(name="max_bytes", shape=Size(least=_KIB, most=100 * 1024**3), doc="decoded bytes"),
        Field(
            name="statement_timeout",
            shape=Length(least=timedelta(seconds=1), most=timedelta(hours=12)),
            doc="longest single statement",
        ),
        Field(
            name="max_connections",
            shape=Whole(least=1, most=32),
            doc="most sessions, including that of the snapshot",
        ),
    ),
)


def _moment_problem(text: str, _reading: Reading) -> str | None:
    moment = read_moment(text)
    if moment is not None and moment.tag is Tag.INSTANT:
        return None
    return "not a time with its offset, such as 2026-01-31T12:00:00Z"


MOMENT = Checked(
    text=Text(most=40),
    code=SpecCode.VALUE_NOT_CONVERTIBLE,
    fault_of=_moment_problem,
    examples=("2026-01-31T12:00:00Z",),
)


def _check_snapshot(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """A version of a table is named in one way."""
    ways = [name for name in _ONE_OF if name in values]
    if len(ways) > 1:
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE,
                path=(*at, ways[0]),
                others=tuple((*at, name) for name in ways[1:]),
                message=f"{' and '.join(ways)} together; give one of them",
                place=Place.KEY,
            )
        )


_ONE_OF = ("snapshot_id", "ref", "as_of")


def _snapshot(*fields: Field) -> Record:
    every = {one.name for some in _SNAPSHOT_FIELDS.values() for one in some}
    foreign = every - {one.name for one in fields}
    return Record(
        title="snapshot",
        model=Snapshot,
        fields=fields,
        check=_check_snapshot,
        misplaced=dict.fromkeys(
            foreign,
            (SpecCode.FIELD_OF_ANOTHER_KIND, "a snapshot field of another kind of source"),
        ),
    )


def _modes(*modes: SnapshotMode) -> Field:
    return Field(
        name="mode", shape=Word(words=SnapshotMode, only=modes), doc="how the read is fixed"
    )


_CAPTURED = (Field(name="as_of", shape=MOMENT, doc="newest captured snapshot at this time"),)
_SNAPSHOT_FIELDS: Mapping[SourceKind, tuple[Field, ...]] = {
    **dict.fromkeys((SourceKind.PARQUET, SourceKind.CSV, SourceKind.JSON), _CAPTURED),
    SourceKind.POSTGRES: (
        _modes(SnapshotMode.EXPORTED),
        Field(
            name="max_hold",
            shape=Length(least=timedelta(minutes=1), most=timedelta(hours=12)),
            doc="how long the exported snapshot may be held",
        ),
    ),
    SourceKind.ICEBERG: (
        Field(name="snapshot_id", shape=Whole(least=0, most=_INT64), doc="one table snapshot"),
        Field(name="ref", shape=IDENT, doc="branch or tag, such as main"),
        Field(name="as_of", shape=MOMENT, doc="newest snapshot at this time"),
    ),
    SourceKind.KAFKA: (
        Field(
            name="from",
            attribute="start",
            shape=TopicBoundShape(TopicEdge.EARLIEST, MOMENT),
            doc="first records that are read",
        ),
        Field(
            name="to",
            attribute="end",
            shape=TopicBoundShape(TopicEdge.LATEST, MOMENT, TopicEdge.WATERMARK),
            doc="first records that are not read",
        ),
    ),
}


RELATION = Field(
    name="relation",
    shape=Text(most=400, normal=False),
    doc="table or view",
    aliases=("table", "dataset"),
)
QUERY = Field(name="query", shape=SQL, doc="one SELECT in the source's dialect")
FILE_QUERY = Field(
    name="query",
    shape=SQL,
    doc="one SELECT in DuckDB's dialect over the path's rows, a table of the source's name",
)
PATH = Field(
    name="path",
    shape=FILE_PATH,
    doc="file, folder or glob below the connection's root, or its address such as s3://bucket/file",
)


TOPIC = Field(name="topic", shape=TOPIC_NAME, doc="name of the topic")
_ORIGINS: Mapping[SourceKind, tuple[Field, ...]] = {
    SourceKind.POSTGRES: (RELATION, QUERY),
    SourceKind.PARQUET: (PATH,),
    SourceKind.CSV: (PATH,),
    SourceKind.JSON: (PATH,),
    SourceKind.ICEBERG: (RELATION,),
    SourceKind.KAFKA: (TOPIC,),
}
_NEEDS_CONNECTION = "a server needs 'connection' to read files"
_NO_CONNECTION = "`datarecs compare` and `datarecs plan` read the path without a connection"
_ORIGIN_NAMES = ("relation", "query", "path", "topic")
_KIND = Word(
    words=SourceKind,
    only=tuple(_ORIGINS),
    absent="sources of this kind are not part of this release",
)


def _check_source(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    kind = values.get("kind")
    if not isinstance(kind, SourceKind) or kind not in _ORIGINS:
        return
    names = ("relation", "path") if kind in FILE_KINDS else _ORIGIN_NAMES
    origins = [name for name in names if name in values]
    wanted = " or ".join(one.name for one in _ORIGINS[kind])
    if not origins:
        reading.fault(
            Fault(
                code=SpecCode.NOT_ONE_ORIGIN,
                path=(*at, _ORIGINS[kind][0].name),
                message=f"a {kind} source needs {wanted}",
                place=Place.MISSING,
            )
        )
    elif len(origins) > 1:
        reading.fault(
            Fault(
                code=SpecCode.NOT_ONE_ORIGIN,
                path=(*at, origins[0]),
                others=tuple((*at, name) for name in origins[1:]),
                message=f"{' and '.join(origins)} together",
                hint=f"keep exactly one of {wanted}",
                place=Place.KEY,
            )
        )
    if kind in FILE_KINDS:
        _check_query(values, at, reading)
        _check_as_of(values, at, reading)
    _check_for_server(values, at, reading)


def _check_query(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Of files: only a query reads tables, and it has the conditions itself."""
    if "query" not in values:
        if values.get("tables"):
            reading.fault(
                Fault(
                    code=SpecCode.MISSING_FIELD,
                    path=(*at, "query"),
                    message="'query' is missing: only a query reads `tables`",
                    hint="write one SELECT that joins them to the table of the source's name",
                    place=Place.MISSING,
                )
            )
        return
    if "filter" in values:
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE,
                path=(*at, "filter"),
                others=((*at, "query"),),
                message="a query of files has no filter beside it",
                hint="write the condition as WHERE of the query",
                place=Place.KEY,
            )
        )
    tables, name = values.get("tables"), values.get("name")
    if isinstance(tables, Mapping) and isinstance(name, str) and name in tables:
        reading.fault(
            Fault(
                code=SpecCode.DUPLICATE_NAME,
                path=(*at, "tables", name),
                message="the rows of the source's path have this name already",
                place=Place.KEY,
            )
        )


def _check_as_of(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Of files: one table of the catalogue, not those of a query beside it."""
    snapshot = values.get("snapshot")
    if values.get("tables") and isinstance(snapshot, Snapshot) and snapshot.as_of is not None:
        reading.fault(
            Fault(
                code=SpecCode.WITHOUT_EFFECT,
                path=(*at, "snapshot"),
                others=((*at, "tables"),),
                message="further tables of a query are always read as they are now",
                hint="leave `snapshot` or `tables` out",
                place=Place.KEY,
            )
        )


def _check_for_server(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """A server reads files below the folder of a connection; `compare` reads any path."""
    is_file = values.get("kind") in FILE_KINDS
    if "connection" not in values:
        missing = Fault(
            code=SpecCode.MISSING_FIELD,
            path=(*at, "connection"),
            message=_NEEDS_CONNECTION if is_file else "'connection' is missing",
            hint=_NO_CONNECTION if is_file else "",
            place=Place.MISSING,
        )
        if is_file:
            reading.server_fault(missing)
        else:
            reading.fault(missing)
    for below, path in _paths(values) if is_file else ():
        if problem := source_path_fault(path):
            reading.server_fault(Fault(code=SpecCode.BAD_PATH, path=(*at, *below), message=problem))


def _paths(values: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    """Every path of a file source, with its place."""
    path, tables = values.get("path"), values.get("tables")
    if isinstance(path, str):
        yield ("path",), path
    for name, table in tables.items() if isinstance(tables, Mapping) else ():
        if isinstance(table, SourceTable):
            yield ("tables", str(name), "path"), table.path


def _check_column(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    if len(values) != 1:
        both = bool(values)
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE if both else SpecCode.MISSING_FIELD,
                path=(*at, "column"),
                others=((*at, "expr"),) if both else (),
                message="give exactly one of column and expr",
                place=Place.KEY if both else Place.MISSING,
            )
        )


COLUMN = replace(COLUMN, check=_check_column)


def _fields(kind: SourceKind) -> tuple[Field, ...]:
    connection = Field(name="connection", shape=NAME_TEXT, doc="name of a Connection")
    snapshot = _SNAPSHOT_FIELDS.get(kind)
    return (
        Field(name="name", shape=NAME_TEXT, doc="unique in the job; events use its position"),
        Field(name="kind", shape=Word(words=SourceKind, only=(kind,)), doc="kind of source"),
        connection,
        *_ORIGINS[kind],
        *((FILE_QUERY, tables_field(kind)) if kind in FILE_KINDS else ()),
        Field(
            name="filter",
            shape=SQL,
            doc="condition over the source's columns, with `:parameters`; docs/expressions.md",
            aliases=("where",),
        ),
        Field(
            name="columns",
            shape=MapOf(key=IDENT, value=COLUMN, most=MAX_COLUMNS),
            doc="logical name to physical column or expression; others keep their name",
            aliases=("column_mapping",),
        ),
        Field(
            name="cast",
            shape=MapOf(key=IDENT, value=TypeName(), most=MAX_COLUMNS),
            doc="logical name to canonical type",
        ),
        Field(name="timezone", shape=Zone(), doc="zone of timestamps without one"),
        Field(
            name="partition",
            shape=PARTITION,
            doc="how it is read in parallel",
            aliases=("partition_by",),
        ),
        *(
            (Field(name="snapshot", shape=_snapshot(*snapshot), doc="version of the data to read"),)
            if snapshot
            else ()
        ),
        Field(name="options", shape=options_of(kind), doc=f"options of {kind}"),
        Field(name="limits", shape=LIMITS, doc="limits of reading the source"),
    )


def _general() -> Record:
    """Fields of every kind, for a source with a missing or misspelt kind."""
    every: dict[str, Field] = {}
    for kind in _ORIGINS:
        for one in _fields(kind):
            every.setdefault(one.name, one)
    anything = {"snapshot", "options"}
    return Record(
        title="a source",
        model=Source,
        build=_source,
        fields=tuple(
            replace(one, shape=FREE)
            if one.name in anything
            else replace(one, shape=_KIND)
            if one.name == "kind"
            else one
            for one in every.values()
        ),
        misplaced=dict.fromkeys(
            ("extract",),
            (SpecCode.FIELD_OF_ANOTHER_KIND, "no kind of source in this release has it"),
        ),
        check=_check_source,
    )


def _source(**values: Any) -> Source:  # noqa: ANN401  the model's fields by keyword, just read
    return Source(**{**values, "options": declared_options(values["kind"], values)})


SOURCE = tagged("kind", {kind: _fields(kind) for kind in _ORIGINS}, record=_general())
