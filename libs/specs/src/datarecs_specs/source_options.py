"""The shape of `options` of a source: one set of fields for each kind.

Separate from the source because text files have many options, and each format adds some.
"""

from collections.abc import Mapping
from dataclasses import replace

from datarecs_core.comparison.values.value_formats import THOUSANDS_MARKS, DateFormat
from datarecs_core.errors.faults import Fault, Gap, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_specs.nodes import Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Check, Field, ListOf, MapOf, Record
from datarecs_specs.shapes import FLAG, IDENT, Checked, Single, Text, TypeName, Whole, Word

MAX_COLUMNS = 2_000
_MOST_ID_COLUMNS = 32
_ONE_CHARACTER = Text(most=1, lines=True)


class TypeText(Single):
    """A canonical type, kept as text: connectors read the options."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        type_name = TypeName().read(node, at, reading)
        return type_name if isinstance(type_name, Gap) else str(type_name)

    def schema(self) -> JsonSchema:
        return TypeName().schema()


_SCHEMA = Field(
    name="schema",
    shape=MapOf(key=IDENT, value=TypeText(), most=MAX_COLUMNS),
    doc="column to canonical type; others are inferred",
)
_INFER = Field(
    name="infer", shape=Word(words=("strict",)), doc="types from every value", default="strict"
)
_ENCODING = Field(
    name="encoding",
    shape=Word(
        words=("utf-8", "utf-16", "utf-16le", "utf-16be", "iso-8859-1", "windows-1252"),
    ),
    doc="encoding of the file; the byte order mark of UTF-16 counts as declared",
    default="utf-8",
)


def _format_of(*kinds: CanonicalType) -> Checked:
    """A format of strptime; of these types, or of any."""

    def problem(text: str, _reading: Reading) -> str | None:
        try:
            kind = DateFormat.of(text).kind
        except ValueError as cause:
            return str(cause)
        fits = not kinds or kind in kinds
        return None if fits else f"a format of {kind}; {' or '.join(map(str, kinds))} is needed"

    return Checked(
        text=Text(most=64, normal=False),
        code=SpecCode.VALUE_NOT_CONVERTIBLE,
        fault_of=problem,
        examples=("%d.%m.%Y",),
    )


def _thousands_problem(mark: str, _reading: Reading) -> str | None:
    return None if mark in THOUSANDS_MARKS else "not a comma, point, blank, apostrophe or _"


_THOUSANDS = Checked(
    text=Text(least=0, most=1, normal=False),
    code=SpecCode.NOT_IN_ENUM,
    fault_of=_thousands_problem,
    examples=(",", "."),
)
_SKIP = Record(
    title="skip",
    model=dict,
    fields=(
        Field(name="first", shape=Whole(least=0, most=1_000), doc="lines before the header"),
        Field(
            name="last",
            shape=Whole(least=0, most=100),
            doc="records at the end, blank lines not counted",
        ),
        Field(
            name="prefixes",
            shape=ListOf(item=Text(most=64, normal=False), most=20),
            doc="lines that start with it, with or without a quote before it",
        ),
    ),
)
_FETCH = Field(
    name="fetch_size",
    shape=Whole(least=1, most=1_000_000),
    doc="rows that are fetched at once",
    default=10_000,
)


def _has_fields(options: Mapping[str, object]) -> bool:
    """Of a topic: whether the values decide about types."""
    return options.get("decode", _OBJECTS) == _OBJECTS


_OBJECTS = "json"
OPTIONS: Mapping[SourceKind, tuple[Field, ...]] = {
    SourceKind.POSTGRES: (
        _FETCH,
        Field(name="verify_count", shape=FLAG, doc="count again after a partitioned read"),
    ),
    SourceKind.PARQUET: (
        Field(
            name="hive_partitions",
            shape=FLAG,
            doc="folders `key=value` are columns",
            default=True,
        ),
        Field(name="merge_schema", shape=FLAG, doc="missing columns are NULL", default=False),
    ),
    SourceKind.CSV: (
        Field(
            name="delimiter",
            shape=_ONE_CHARACTER,
            doc="between fields; detected from the first lines if absent",
        ),
        Field(name="quote", shape=_ONE_CHARACTER, doc="character around fields", default='"'),
        Field(
            name="escape",
            shape=_ONE_CHARACTER,
            doc="character before a quote inside a field",
            default='"',
        ),
        Field(name="header", shape=FLAG, doc="the first line names the columns", default=True),
        Field(
            name="null",
            shape=Text(least=0, most=64),
            doc="unquoted text that means NULL",
            default="",
        ),
        Field(
            name="null_words",
            shape=ListOf(item=Text(most=64, normal=False), most=20),
            doc="more unquoted texts that mean NULL, such as n/a",
        ),
        Field(name="multiline", shape=FLAG, doc="fields may hold line breaks", default=False),
        Field(
            name="decimal", shape=Word(words=(".", ",")), doc="decimal mark of numbers", default="."
        ),
        Field(
            name="thousands",
            shape=_THOUSANDS,
            doc="mark between groups of three digits",
            default="",
        ),
        Field(
            name="date_format",
            shape=_format_of(types.DATE),
            doc="how dates are written, such as %d.%m.%Y; else ISO 8601",
        ),
        Field(
            name="timestamp_format",
            shape=_format_of(types.LOCAL_TIMESTAMP, types.INSTANT),
            doc="how times with a date are written, such as %d.%m.%Y %H:%M; else ISO 8601",
        ),
        Field(
            name="formats",
            shape=MapOf(key=IDENT, value=_format_of(), most=MAX_COLUMNS),
            doc="column to the format of its dates or times, which is its type too",
        ),
        Field(name="skip", shape=_SKIP, doc="lines that hold no row"),
        _ENCODING,
        _SCHEMA,
        _INFER,
    ),
    SourceKind.JSON: (_ENCODING, _SCHEMA, _INFER),
    SourceKind.KAFKA: (
        Field(
            name="decode",
            shape=Word(words=("json", "avro", "text", "bytes")),
            doc="form of the value: JSON objects, records of Avro, or one column `value`",
            default=_OBJECTS,
        ),
        Field(
            name="fold",
            shape=Word(words=("none", "latest_by_key", "latest_by_id")),
            doc="latest_by_key keeps the last record of each key, latest_by_id of each row of the "
            "table that a sink writes (`to: watermark`)",
            default="none",
        ),
        Field(
            name="id_columns",
            shape=ListOf(item=IDENT, most=_MOST_ID_COLUMNS),
            doc="key of latest_by_id, as in the sink; without it the identifier fields",
        ),
        Field(
            name="case_insensitive",
            shape=FLAG,
            doc="fields are columns in any case, as in the sink (`to: watermark`)",
            default=False,
        ),
        Field(
            name="tombstones",
            shape=Word(words=("keep", "delete")),
            doc="records without a value: rows of NULL, or no rows",
            default="keep",
        ),
        _SCHEMA,
        replace(_INFER, has_effect=_has_fields),
    ),
}


def options_of(kind: SourceKind) -> Record:
    mine = OPTIONS.get(kind, ())
    names = {one.name for one in mine}
    owners: dict[str, list[str]] = {}
    for other, fields in OPTIONS.items():
        for one in fields:
            owners.setdefault(one.name, []).append(other)
    foreign = {
        name: (SpecCode.FIELD_OF_ANOTHER_KIND, f"it is an option of kind {', '.join(others)}")
        for name, others in owners.items()
        if name not in names
    }
    return Record(
        title=f"options of {kind}",
        model=dict,
        fields=mine,
        misplaced=foreign,
        check=_CHECKS.get(kind),
    )


def _check_topic(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Only objects have columns with inferred types, and only fields have types to declare."""
    decode = values.get("decode", _OBJECTS)
    if decode == _OBJECTS or isinstance(decode, Gap):
        return
    is_avro = decode == "avro"
    message = f"decode {decode} has the one column `value`"
    hint = "leave it out; `cast` of the source converts the column"
    for name in ("infer",) if is_avro else ("schema", "infer"):
        if name in values:
            reading.fault(
                Fault(
                    code=SpecCode.WITHOUT_EFFECT,
                    path=(*at, name),
                    message="the schemas of the registry have the types" if is_avro else message,
                    hint="leave it out, or declare types with options.schema" if is_avro else hint,
                    place=Place.KEY,
                )
            )


def _check_csv(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Marks differ, and a column has one type."""
    if values.get("thousands") == values.get("decimal", "."):
        message = "the mark of thousands is the decimal mark"
        reading.fault(
            Fault(
                code=SpecCode.VALUE_NOT_CONVERTIBLE,
                path=(*at, "thousands"),
                message=message,
                hint="declare options.decimal too",
            )
        )
    schema, formats = values.get("schema"), values.get("formats")
    if isinstance(schema, Mapping) and isinstance(formats, Mapping):
        for name in (each for each in formats if each in schema):
            reading.fault(
                Fault(
                    code=SpecCode.FIELD_GIVEN_TWICE,
                    path=(*at, "formats", name),
                    others=((*at, "schema", name),),
                    message=f"column {name!r} has a type and a format",
                    hint="keep the format: it is the type",
                    place=Place.KEY,
                )
            )


_CHECKS: Mapping[SourceKind, Check] = {
    SourceKind.CSV: _check_csv,
    SourceKind.KAFKA: _check_topic,
}
