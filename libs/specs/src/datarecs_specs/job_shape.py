"""The shape of a ReconciliationJob's spec: parameters, policies, results, execution, and the rest.

The one table from which job files are read, written canonically and described to editors.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from datarecs_core.errors.faults import Fault, Gap, Path, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import (
    LEAST_MEMORY,
    MOST_MEMORY,
    Breaks,
    ColumnRules,
    Execution,
    JsonRules,
    Normalize,
    NullRules,
    NumberRules,
    Parameter,
    ReconciliationJob,
    Results,
    SchemaPolicy,
    StringRules,
    TimestampRules,
)
from datarecs_core.jobs.parameters import MAX_LIST
from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Case,
    DuplicatePolicy,
    EmptyPolicy,
    EmptyText,
    EngineName,
    ExtractMode,
    Float32Rule,
    MaskRule,
    NanRule,
    NullAs,
    NullKeys,
    ParameterType,
    ProofMode,
    ReportFormat,
    Rounding,
    SchemaMode,
    Strategy,
    TimePrecision,
    Trim,
    UnicodeForm,
)
from datarecs_specs.job_sources import FREE, LITERAL, MAX_SOURCES, SOURCE
from datarecs_specs.job_stages import MAX_STAGES, STAGE
from datarecs_specs.nodes import Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Field, ListOf, MapOf, Misplaced, Record
from datarecs_specs.shapes import (
    FLAG,
    IDENT,
    NAME_TEXT,
    PARAMETER_NAME,
    Length,
    Single,
    Size,
    Text,
    TypeName,
    Whole,
    Word,
    Zone,
    text_of,
    wrong_type,
)
from datarecs_specs.source_options import MAX_COLUMNS

MAX_PARAMETERS = 50
_MIB, _TIB = 1024**2, 1024**4
_LIST_OF = re.compile(r"list<([a-z]+)>")


class _ParameterType(Single):
    """`date`, or `list<date>`: the type and whether there are many."""

    __slots__ = ()
    words = (*ParameterType, *(f"list<{one}>" for one in ParameterType))

    def read(self, node: Node, at: Path, reading: Reading) -> tuple[ParameterType, bool] | Gap:
        text = text_of(node)
        if text is None:
            return wrong_type(node, at, reading, "a type")
        if text not in self.words:
            return reading.fault(
                Fault(
                    code=SpecCode.NOT_IN_ENUM,
                    path=at,
                    message=f"not one of {', '.join(ParameterType)}, or list<…> of one",
                    hint=did_you_mean(text, self.words),
                )
            )
        many = _LIST_OF.fullmatch(text)
        return ParameterType(many[1] if many else text), many is not None

    def plain(self, value: object) -> JsonValue:
        kind, many = value if isinstance(value, tuple) else (value, False)
        return f"list<{kind}>" if many else str(kind)

    def schema(self) -> JsonSchema:
        return {"type": "string", "enum": [str(word) for word in self.words]}


def _parameter(type: tuple[ParameterType, bool], **rest: Any) -> Parameter:  # noqa: A002, ANN401  the name of the field, the fields of the model
    return Parameter(type=type[0], many=type[1], **rest)


def _type_of(parameter: Parameter) -> tuple[ParameterType, bool]:
    return parameter.type, parameter.many


PARAMETER = Record(
    title="a parameter",
    model=Parameter,
    build=_parameter,
    fields=(
        Field(name="type", shape=_ParameterType(), doc="type of its value", get=_type_of),
        Field(
            name="default",
            shape=FREE,
            doc="a literal or one {{ }} expression; without it the trigger must give a value",
        ),
        Field(name="allowed", shape=ListOf(item=LITERAL, most=MAX_LIST), doc="the only values"),
        Field(
            name="description",
            shape=Text(least=0, most=2_000, lines=True),
            doc="description for people",
        ),
    ),
)

_ROUND = Whole(least=0, most=18, word="none")
_TRIM = Field(name="trim", shape=Word(words=Trim), doc="white space at the ends")
_CASE = Field(name="case", shape=Word(words=Case), doc="whether case counts")
_UNICODE = Field(name="unicode", shape=Word(words=UnicodeForm), doc="normal form first")
_EMPTY = Field(name="empty", shape=Word(words=EmptyText), doc="whether '' is NULL")
_NAN = Field(name="nan", shape=Word(words=NanRule), doc="whether NaN equals NaN")
_FLOAT32 = Field(name="float32", shape=Word(words=Float32Rule), doc="how single floats compare")
_ROUNDED = Field(name="round", shape=_ROUND, doc="places, half-even")
_PRECISION = Field(name="precision", shape=Word(words=TimePrecision), doc="of times")
_ROUNDING = Field(name="rounding", shape=Word(words=Rounding), doc="how precision is cut")
_ARRAYS = Field(name="arrays", shape=Word(words=ArrayRule), doc="whether order counts in JSON")


def _null(*words: NullAs) -> Field:
    return Field(name="null", shape=Word(words=NullAs, only=words), doc="what NULL stands for")


NORMALIZE = Record(
    title="normalize",
    model=Normalize,
    fields=(
        Field(
            name="strings",
            shape=Record(
                title="rules of texts",
                model=StringRules,
                fields=(_TRIM, _CASE, _UNICODE, _EMPTY, _null(NullAs.KEEP, NullAs.EMPTY)),
            ),
            doc="rules of texts",
        ),
        Field(
            name="numbers",
            shape=Record(
                title="rules of numbers",
                model=NumberRules,
                fields=(_NAN, _FLOAT32, _ROUNDED, _null(NullAs.KEEP, NullAs.ZERO)),
            ),
            doc="rules of numbers",
        ),
        Field(
            name="timestamps",
            shape=Record(
                title="rules of times", model=TimestampRules, fields=(_PRECISION, _ROUNDING)
            ),
            doc="rules of times",
        ),
        Field(
            name="json",
            shape=Record(title="rules of JSON", model=JsonRules, fields=(_ARRAYS,)),
            doc="rules of JSON values",
        ),
        Field(
            name="nulls",
            shape=Record(
                title="rules of NULL",
                model=NullRules,
                fields=(Field(name="keys", shape=Word(words=NullKeys), doc="NULL in a dimension"),),
            ),
            doc="NULL in keys",
        ),
        Field(
            name="columns",
            shape=MapOf(
                key=IDENT,
                value=Record(
                    title="rules of a column",
                    model=ColumnRules,
                    fields=(
                        _TRIM,
                        _CASE,
                        _UNICODE,
                        _EMPTY,
                        _null(*NullAs),
                        _ROUNDED,
                        _NAN,
                        _FLOAT32,
                        _PRECISION,
                        _ROUNDING,
                        _ARRAYS,
                    ),
                ),
                most=MAX_COLUMNS,
            ),
            doc="by logical column; wins over the rules of its type",
        ),
    ),
)
SCHEMA = Record(
    title="schema",
    model=SchemaPolicy,
    fields=(
        Field(name="mode", shape=Word(words=SchemaMode), doc="when two types are equal"),
        Field(name="order", shape=FLAG, doc="whether the order of columns counts"),
        Field(name="nullability", shape=FLAG, doc="whether NOT NULL counts"),
        Field(name="ignore", shape=ListOf(item=IDENT, most=MAX_COLUMNS), doc="columns left out"),
        Field(
            name="equivalences",
            shape=ListOf(item=ListOf(item=TypeName(), least=2, most=17), most=100),
            doc="types that count as one",
        ),
    ),
)
RESULTS = Record(
    title="results",
    model=Results,
    fields=(
        Field(
            name="breaks",
            shape=Record(
                title="breaks",
                model=Breaks,
                fields=(
                    Field(
                        name="max_rows",
                        shape=Whole(least=0, most=10_000_000),
                        doc="differences stored per stage; counts are always complete",
                    ),
                    Field(
                        name="sample_per_class",
                        shape=Whole(least=0, most=1_000),
                        doc="rows of each class that a report shows",
                    ),
                    Field(
                        name="retention",
                        shape=Length(least=timedelta(days=1), most=timedelta(days=3_650)),
                        doc="how long they are kept; nothing removes them yet",
                    ),
                    Field(
                        name="mask",
                        shape=MapOf(key=IDENT, value=Word(words=MaskRule), most=MAX_COLUMNS),
                        doc="columns whose values are never shown in clear",
                    ),
                    Field(name="deltas", shape=FLAG, doc="also store differences within"),
                ),
            ),
            doc="what is stored of the differences",
        ),
        Field(
            name="reports",
            shape=ListOf(item=Word(words=ReportFormat), most=len(ReportFormat)),
            doc="written by `datarecs compare`; a server renders each on request",
        ),
    ),
)
EXECUTION = Record(
    title="execution",
    model=Execution,
    fields=(
        Field(name="engine", shape=Word(words=EngineName), doc="what runs the plan"),
        Field(name="proof", shape=Word(words=ProofMode), doc="what the proof in run.json seals"),
        Field(
            name="strategy",
            shape=Word(words=Strategy),
            doc="`full` compares all rows at once; `narrow` reads row stages once before, to skip"
            " equal rows; `pushdown` lets databases group; `auto` chooses the fastest by size;"
            " `fingerprint` is `full` in this release",
        ),
        Field(
            name="extract",
            shape=Word(words=ExtractMode),
            doc="whether the run first copies the sources",
        ),
        Field(
            name="memory",
            shape=Size(least=LEAST_MEMORY, most=MOST_MEMORY),
            doc="memory of a local run; workers have a setting",
        ),
        Field(
            name="spill",
            shape=Size(least=_MIB, most=_TIB),
            doc="disk of the run; at most `max_spill_mb` of the worker",
        ),
        Field(
            name="partitions",
            shape=Whole(least=1, most=10_000, word="auto"),
            doc="parts into which the engine divides the rows",
        ),
        Field(
            name="deadline",
            shape=Length(least=timedelta(minutes=1), most=timedelta(hours=24)),
            doc="time limit of a run, over all attempts",
            aliases=("timeout",),
        ),
        Field(name="resume", shape=FLAG, doc="continue from checkpoints; none are written yet"),
        Field(name="attempts", shape=Whole(least=1, most=10), doc="most attempts of a run"),
        Field(
            name="retry_on",
            shape=ListOf(item=Word(words=("CRASHED", "QUERY_FAILED", "UNKNOWN")), most=3),
            doc="error codes after which a run is attempted again",
        ),
        Field(
            name="priority",
            shape=Whole(least=0, most=9),
            doc="priority in the queue; 0 is the first",
        ),
    ),
)

_NOT_IN_A_JOB: Mapping[str, Misplaced] = {
    key: (SpecCode.FIELD_OF_ANOTHER_KIND, hint)
    for key, hint in (
        ("triggers", "declare a Schedule for when it runs"),
        ("schedule", "declare a Schedule for when it runs"),
        ("notifications", "declare a NotificationRule for mails"),
        ("webhooks", "declare a WebhookEndpoint for webhooks"),
    )
}
JOB = Record(
    title="spec of a ReconciliationJob",
    model=ReconciliationJob,
    misplaced=_NOT_IN_A_JOB,
    fields=(
        Field(
            name="description",
            shape=Text(least=0, most=2_000, lines=True),
            doc="description for people",
        ),
        Field(name="owner", shape=Text(least=0, most=200), doc="who is responsible for it"),
        Field(name="timezone", shape=Zone(), doc="time zone of run.date in `{{ }}` expressions"),
        Field(
            name="parameters",
            shape=MapOf(
                key=Text(most=63, pattern=PARAMETER_NAME), value=PARAMETER, most=MAX_PARAMETERS
            ),
            doc="values that a run may set, used as `:name`",
            aliases=("params",),
        ),
        Field(
            name="sources",
            shape=ListOf(item=SOURCE, least=2, most=MAX_SOURCES),
            doc="what is compared; the order must not change",
            aliases=("inputs",),
            stand_in=(),
        ),
        Field(
            name="reference",
            shape=NAME_TEXT,
            doc="source from which differences are measured, the first by default",
            aliases=("base",),
        ),
        Field(name="normalize", shape=NORMALIZE, doc="declared relaxations; none by default"),
        Field(
            name="duplicates",
            shape=Word(words=DuplicatePolicy),
            doc="what happens to rows with the same key in one source",
        ),
        Field(name="empty", shape=Word(words=EmptyPolicy), doc="sources without a row"),
        Field(name="schema", shape=SCHEMA, doc="when two schemas are equal"),
        Field(
            name="stages",
            shape=ListOf(item=STAGE, least=1, most=MAX_STAGES),
            doc="comparisons, in order",
            stand_in=(),
        ),
        Field(name="results", shape=RESULTS, doc="what is stored and written"),
        Field(
            name="execution", shape=EXECUTION, doc="how the run is executed; it changes no result"
        ),
    ),
)
