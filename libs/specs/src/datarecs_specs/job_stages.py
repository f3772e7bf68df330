"""The shape of a job's stages: dimensions, measures, tolerances, and the fields of each type.

Separate from the sources because the two grow for different reasons: a stage with the comparison's
meaning, a source with its connector.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from datarecs_core.errors.faults import Fault, Gap, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    Accept,
    Confirm,
    Dimension,
    Measure,
    MeasureDefaults,
    Scope,
    Stage,
    Tolerance,
    Unit,
    WarnAt,
)
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    DuplicatePolicy,
    Function,
    OnUnmatched,
    StageType,
    ToleranceBase,
    ToleranceType,
)
from datarecs_core.notation import parse_decimal
from datarecs_core.values import EXACT, HUNDRED
from datarecs_specs.job_sources import LITERAL, MAX_SOURCES
from datarecs_specs.nodes import Form, MapNode, Node, Scalar
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import REQUIRED, Field, ListOf, ListOrWord, MapOf, Record, tagged
from datarecs_specs.shapes import (
    AMOUNT,
    FLAG,
    IDENT,
    NAME_TEXT,
    PERCENT,
    SQL,
    Length,
    Single,
    Text,
    TypeName,
    Whole,
    Word,
    wrong_type,
)
from datarecs_specs.source_options import MAX_COLUMNS

MAX_STAGES = 50
MAX_DIMENSIONS = 32
MAX_MEASURES = 500
MAX_TOLERANCES = 4
MAX_UNITS = 50


class _Source(Single):
    """The scalar itself, for a value that depends on another field."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> Scalar | Gap:
        if isinstance(node, Scalar) and node.form not in {Form.NULL, Form.BOOL}:
            return node
        return wrong_type(node, at, reading, "a decimal or a duration")

    def schema(self) -> JsonSchema:
        return {"anyOf": [AMOUNT.schema(), Length().schema()]}


_TOLERANCE = Record(
    title="a tolerance",
    model=dict,
    fields=(
        Field(
            name="type", shape=Word(words=ToleranceType), doc="kind of tolerance", default=REQUIRED
        ),
        Field(name="value", shape=_Source(), doc="decimal, percent or duration; none for EXACT"),
        Field(
            name="base", shape=Word(words=ToleranceBase), doc="value of which PERCENTAGE is a share"
        ),
    ),
)


class ToleranceShape:
    """One bound; what its value is depends on its type."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> Tolerance | Gap:
        values = _TOLERANCE.read(node, at, reading)
        if not isinstance(values, Mapping) or not isinstance(node, MapNode):
            return Gap()
        kind: ToleranceType = values["type"]
        base = values.get("base", ToleranceBase.REFERENCE)
        if node.get("base") is not None and kind is not ToleranceType.PERCENTAGE:
            _fault(SpecCode.BASE_NOT_ALLOWED, (*at, "base"), reading, f"{kind} has no base")
            base = ToleranceBase.REFERENCE
        if node.get("value") is None or kind is ToleranceType.EXACT:
            return self._without_value(node, kind, at, reading)
        value = values.get("value")
        bound = _bound(kind, value, (*at, "value"), reading) if isinstance(value, Scalar) else None
        return Gap() if bound is None else Tolerance(type=kind, value=bound, base=base)

    def _without_value(
        self, node: MapNode, kind: ToleranceType, at: Path, reading: Reading
    ) -> Tolerance | Gap:
        if kind is not ToleranceType.EXACT:
            return reading.fault(
                Fault(
                    code=SpecCode.MISSING_FIELD,
                    path=(*at, "value"),
                    message="'value' is missing",
                    place=Place.MISSING,
                )
            )
        if node.get("value") is not None:
            _fault(SpecCode.VALUE_ON_EXACT, (*at, "value"), reading, "EXACT takes no value")
        return Tolerance(type=kind)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if not isinstance(value, Tolerance):
            return {}
        written: dict[str, JsonValue] = {"type": str(value.type)}
        match value.value:
            case Decimal():
                written["value"] = AMOUNT.plain(value.value)
            case timedelta():
                written["value"] = Length().plain(value.value)
            case None:
                pass
        default_base = minimal and value.base is ToleranceBase.REFERENCE
        if value.type is ToleranceType.PERCENTAGE and not default_base:
            written["base"] = str(value.base)
        return written

    def schema(self) -> JsonSchema:
        return _TOLERANCE.schema()


def _fault(code: SpecCode, at: Path, reading: Reading, message: str) -> None:
    reading.fault(Fault(code=code, path=at, message=message))


def _bound(
    kind: ToleranceType, node: Scalar, at: Path, reading: Reading
) -> Decimal | timedelta | None:
    match kind:
        case ToleranceType.PERCENTAGE:
            bound = PERCENT.read(node, at, reading)
        case ToleranceType.ABSOLUTE:
            bound = AMOUNT.read(node, at, reading)
        case _:
            length = Length(most=timedelta(days=3650)).read(node, at, reading)
            return None if isinstance(length, Gap) else length
    return None if isinstance(bound, Gap) else bound


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTolerance:
    """`abs_tol: 0.01` and `rel_tol: 0.001` as other tools write them: one tolerance each."""

    type: ToleranceType
    scale: int = 0
    """Places by which the point moves: a ratio becomes a percentage by 2."""

    def read(self, node: Node, at: Path, reading: Reading) -> tuple[Tolerance, ...] | Gap:
        value = AMOUNT.read(node, at, reading)
        if isinstance(value, Gap):
            return value
        scaled = parse_decimal(format(value.scaleb(self.scale, EXACT), "f"))
        if scaled is None or (self.scale and scaled > HUNDRED):
            message = "a ratio above 1" if self.scale else "too many digits"
            code = SpecCode.PERCENTAGE_ABOVE_100 if self.scale else SpecCode.BAD_TOLERANCE_VALUE
            return reading.fault(Fault(code=code, path=at, message=message))
        return (Tolerance(type=self.type, value=scaled),)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        return TOLERANCES.write(value, minimal=minimal)

    def schema(self) -> JsonSchema:
        return AMOUNT.schema()


TOLERANCES = ListOf(item=ToleranceShape(), least=1, most=MAX_TOLERANCES)


_UNIT_NAME = Text(most=40, normal=False)
UNIT = Record(
    title="unit of a measure",
    model=Unit,
    fields=(
        Field(name="column", shape=IDENT, doc="logical column of the unit, a text"),
        Field(
            name="values",
            shape=ListOf(item=_UNIT_NAME, most=MAX_UNITS),
            doc="units under the measure's tolerances",
        ),
        Field(
            name="tolerances",
            shape=MapOf(key=_UNIT_NAME, value=TOLERANCES, most=MAX_UNITS),
            doc="by unit, instead of the measure's",
        ),
    ),
)


class _MappedText(Single):
    """A value of a map: text, or a number or truth as its canonical text."""

    __slots__ = ()

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        value = LITERAL.read(node, at, reading)
        if isinstance(value, bool):
            return "true" if value else "false"
        return value if isinstance(value, Gap) else str(value)

    def schema(self) -> JsonSchema:
        return LITERAL.schema()


DIMENSION = Record(
    title="a dimension",
    model=Dimension,
    shorthand="name",
    fields=(
        Field(name="name", shape=IDENT, doc="name of the dimension"),
        Field(name="column", shape=IDENT, doc="logical column, the name by default"),
    ),
)
_JUDGING = (
    Field(
        name="tolerances",
        shape=TOLERANCES,
        doc="limits within which different values agree",
        aliases=("abs_tol", "rel_tol"),
        alias_shapes={
            "abs_tol": OneTolerance(type=ToleranceType.ABSOLUTE),
            "rel_tol": OneTolerance(type=ToleranceType.PERCENTAGE, scale=2),
        },
    ),
    Field(
        name="combine", shape=Word(words=Combine), doc="whether all tolerances must hold, or any"
    ),
    Field(name="bound", shape=Word(words=Bound), doc="whether a gap equal to the tolerance agrees"),
)
MEASURE = Record(
    title="a measure",
    model=Measure,
    fields=(
        Field(name="name", shape=IDENT, doc="of the measure, unique in the stage"),
        Field(name="column", shape=IDENT, doc="logical column, the name by default"),
        Field(
            name="function",
            shape=Word(words=Function),
            doc="function of the column's values, such as sum",
        ),
        *_JUDGING,
        Field(
            name="map",
            shape=MapOf(
                key=NAME_TEXT,
                value=MapOf(key=Text(least=0, most=4_096), value=_MappedText(), most=10_000),
                most=MAX_SOURCES,
            ),
            doc="by source: value to value, before anything else",
        ),
        Field(name="map_strict", shape=FLAG, doc="values that are not in the map are INVALID"),
        Field(
            name="unit",
            shape=UNIT,
            doc="currency or unit of the amounts; each is compared and added up by itself",
        ),
        Field(name="adds_up", shape=FLAG, doc="whether reports show its totals; by name if absent"),
    ),
)
MEASURE_DEFAULTS = Record(title="defaults of measures", model=MeasureDefaults, fields=_JUDGING)
_COUNT = Whole(least=0, most=2**53 - 1)
ACCEPT = Record(
    title="accept",
    model=Accept,
    fields=(
        Field(name="max_outside", shape=_COUNT, doc="groups with a measure outside"),
        Field(name="max_outside_percent", shape=PERCENT, doc="of rows_compared"),
        Field(name="max_unmatched", shape=_COUNT, doc="groups that are missing in a source"),
        Field(name="max_unmatched_percent", shape=PERCENT, doc="of rows_compared"),
        Field(
            name="max_gap",
            shape=MapOf(key=IDENT, value=AMOUNT, most=MAX_MEASURES),
            doc="by measure: largest gap, without its sign",
        ),
    ),
)
WARN_AT = Record(
    title="warn_at",
    model=WarnAt,
    fields=(
        Field(name="outside_percent", shape=PERCENT, doc="of rows_compared"),
        Field(name="unmatched_percent", shape=PERCENT, doc="of rows_compared"),
        Field(
            name="gap",
            shape=MapOf(key=IDENT, value=AMOUNT, most=MAX_MEASURES),
            doc="by measure: largest gap, without its sign",
        ),
    ),
)
SCOPE = Record(
    title="scope",
    model=Scope,
    fields=(
        Field(name="from_stage", shape=NAME_TEXT, doc="an earlier stage"),
        Field(
            name="only",
            shape=Word(words=("differing",)),
            doc="which groups of that stage: those that differ",
        ),
    ),
)
CONFIRM = Record(
    title="confirm",
    model=Confirm,
    fields=(
        Field(name="after", shape=Length(most=timedelta(hours=1)), doc="wait before the re-read"),
        Field(name="attempts", shape=Whole(least=1, most=5), doc="most readings"),
        Field(name="max_keys", shape=Whole(least=1, most=100_000), doc="most keys to read again"),
    ),
)

_NAMED = ListOf(item=MEASURE, most=MAX_MEASURES)
_FIELDS: Mapping[str, Field] = {
    one.name: one
    for one in (
        Field(name="name", shape=NAME_TEXT, doc="unique in the job"),
        Field(name="type", shape=Word(words=StageType), doc="what is compared"),
        Field(
            name="dimensions",
            shape=ListOf(item=DIMENSION, most=MAX_DIMENSIONS),
            doc="columns of the key; without them whole rows",
            aliases=("keys", "key_columns", "join_columns", "primary_keys", "on"),
        ),
        Field(
            name="measures",
            shape=ListOrWord(word=ALL_COLUMNS, items=_NAMED),
            doc='what is compared per group; `"*"` is every other column',
        ),
        Field(
            name="except",
            shape=ListOf(item=IDENT, most=MAX_COLUMNS),
            doc='columns that `"*"` leaves out',
            attribute="except_",
        ),
        Field(
            name="measure_defaults",
            shape=MapOf(key=TypeName(), value=MEASURE_DEFAULTS, most=32),
            doc='what `"*"` gives to the columns of a canonical type',
        ),
        Field(name="where", shape=SQL, doc="condition over logical columns; docs/expressions.md"),
        Field(
            name="compare_to",
            shape=Word(words=CompareTo),
            doc="which sources are compared with each other",
        ),
        Field(name="reference", shape=NAME_TEXT, doc="a source; the job's by default"),
        Field(
            name="on_unmatched",
            shape=Word(words=OnUnmatched),
            doc="what follows a difference: continue with all rows, stop, or escalate, where the "
            "next stage reads only the groups that differ",
        ),
        Field(name="warn_at", shape=WARN_AT, doc="limits above which the stage has a warning"),
        Field(name="accept", shape=ACCEPT, doc="limits of acceptance, never of the verdict"),
        Field(name="scope", shape=SCOPE, doc="limited to an earlier stage's groups"),
        Field(
            name="duplicates",
            shape=Word(words=DuplicatePolicy),
            doc="what happens to rows with the same key in one source",
        ),
        Field(name="confirm", shape=CONFIRM, doc="read differing groups again, for late rows"),
        Field(
            name="queries",
            shape=MapOf(key=NAME_TEXT, value=SQL, most=MAX_SOURCES),
            doc="one SELECT per source",
        ),
    )
}
_JUDGED = ("compare_to", "reference", "on_unmatched", "warn_at", "accept", "scope", "confirm")
_BY_TYPE: Mapping[StageType, tuple[str, ...]] = {
    StageType.COUNTS: ("measures", "where", *_JUDGED),
    StageType.SCHEMA: ("reference", "on_unmatched", "accept"),
    StageType.AGGREGATE: ("dimensions", "measures", "where", *_JUDGED),
    StageType.ROW: (
        "dimensions",
        "measures",
        "except",
        "measure_defaults",
        "where",
        "duplicates",
        *_JUDGED,
    ),
    StageType.DIGEST: ("dimensions", "measures", "except", "where", *_JUDGED),
    StageType.CUSTOM_SQL: ("dimensions", "measures", "queries", *_JUDGED),
}


def _fields(kind: StageType) -> tuple[Field, ...]:
    overrides = {"type": replace(_FIELDS["type"], shape=Word(words=StageType, only=(kind,)))}
    return tuple(
        overrides.get(name, one)
        for name, one in _FIELDS.items()
        if name in {"name", "type", *_BY_TYPE[kind]}
    )


STAGE = tagged(
    "type",
    {kind: _fields(kind) for kind in StageType},
    record=Record(title="a stage", model=Stage, fields=tuple(_FIELDS.values())),
)
