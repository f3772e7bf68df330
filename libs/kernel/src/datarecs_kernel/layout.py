"""A stage as columns: its keys and measures, their forms, roles and companions.

Created once per stage from the plan and the columns of the sources; every later step reads names
and types here. Plans that this engine does not support are refused here, before any row is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from datarecs_core.comparison.expressions.condition import named_columns
from datarecs_core.comparison.planning.plan import (
    DimensionPlan,
    HashedRows,
    InputPlan,
    MeasurePlan,
    StagePlan,
)
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.results.fingerprints import hashed_rows
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import (
    Case,
    Float32Rule,
    Function,
    NullAs,
    UnicodeForm,
)
from datarecs_kernel.forms import (
    BOOL,
    DOUBLE,
    ENCODED,
    INTEGER,
    NUMBER,
    TEXT,
    Form,
    FormKind,
    decimal,
    form_of,
    summed_form,
)
from datarecs_kernel.refusals import NotCoveredError

_ABSENT = frozenset({TypeKind.INTERVAL})
_DEEPEST_SCALE = 28
"""Digits after the point that sums can still add up exactly."""
_SUM_DIGITS = 10
"""Digits by which a sum is widened, for the maximum number of rows of a group."""


class Columns(Protocol):
    """How the files of a source store its columns."""

    @property
    def checked(self) -> frozenset[str]:
        """Logical columns with a companion of INVALID values."""

    @property
    def wide(self) -> frozenset[str]:
        """Integer columns with unsigned numbers of 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainColumns:
    """Columns with only values, without companions: the input of the kernel."""

    checked: frozenset[str] = frozenset()
    wide: frozenset[str] = frozenset()


class Role(StrEnum):
    """The purpose of a prepared column."""

    KEY = "key"
    VALUE = "value"
    CHOICE = "choice"
    """Input of `min` and `max`."""
    AMOUNT = "amount"
    """Input of `sum` and `avg`: a decimal, with a state if sources have NaN or infinities."""
    PRESENCE = "presence"
    """Input of `count`: TRUE or NULL."""
    DISTINCT = "distinct"
    """Input of `count_distinct`: compared only within one source."""
    HASHED = "hashed"
    """Part of a fingerprint, key or value, in a form that SQL can encode."""


_ROLES = {
    Function.VALUE: Role.VALUE,
    Function.COUNT: Role.PRESENCE,
    Function.COUNT_DISTINCT: Role.DISTINCT,
    Function.SUM: Role.AMOUNT,
    Function.AVG: Role.AMOUNT,
    Function.MIN: Role.CHOICE,
    Function.MAX: Role.CHOICE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key part or the input of a measure, prepared in the same way in every source."""

    name: str
    """Name of its column: `k0`, `m0`; companions add one letter."""
    label: str
    """Its name in the job."""
    role: Role
    inputs: tuple[InputPlan | None, ...]
    rules: Rules
    form: Form
    python: tuple[bool, ...]
    """Per source, whether it needs Python because SQL cannot prepare it."""
    may_be_invalid: bool
    """Whether a companion `<name>x` has payloads of INVALID values."""
    stateful: bool = False
    """Whether a companion `<name>z` has the state of an amount."""
    changes: bool = False
    """Whether companions `<name>r` and `<name>q` have the text before rules and its sort key."""

    @property
    def payload(self) -> str:
        return f"{self.name}x"

    @property
    def state(self) -> str:
        return f"{self.name}z"

    @property
    def raw(self) -> str:
        return f"{self.name}r"

    @property
    def raw_order(self) -> str:
        return f"{self.name}q"

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Name and SQL type of its column and its companions."""
        columns = [(self.name, self.form.sql_type)]
        if self.may_be_invalid:
            columns.append((self.payload, "BINARY"))
        if self.stateful:
            columns.append((self.state, "INT"))
        if self.changes:
            columns += [(self.raw, "STRING"), (self.raw_order, "STRING")]
        return tuple(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureLayout:
    """One measure: its inputs, and the form of the compared values."""

    plan: MeasurePlan
    field: Field | None
    """None for counts of rows and for measures that are not comparable."""
    result: Form
    may_be_invalid: bool
    changes: bool
    """Whether each compared value has a text before rules."""

    @property
    def index(self) -> int:
        return self.plan.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A stage as columns."""

    stage: StagePlan
    keys: tuple[Field, ...]
    measures: tuple[MeasureLayout, ...]
    hashed: "Layout | None" = None
    """Layout of the rows that are hashed, in a digest stage."""

    @property
    def of_rows(self) -> "Layout":
        """The layout of the rows that are read."""
        return self.hashed or self

    @property
    def sources(self) -> range:
        return range(len(self.stage.scans))

    @property
    def others(self) -> tuple[int, ...]:
        """Every source except the reference."""
        return tuple(index for index in self.sources if index != self.stage.reference)

    @property
    def compared(self) -> tuple[MeasureLayout, ...]:
        return tuple(each for each in self.measures if each.plan.comparable)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.keys, *(each.field for each in self.measures if each.field is not None))

    @property
    def key_columns(self) -> tuple[tuple[str, str], ...]:
        """Name and SQL type; companions included."""
        return tuple(column for field in self.keys for column in field.columns)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(label for label, _ in self.key_columns)

    @property
    def pairs_rows(self) -> bool:
        """Whether rows of a key are compared one by one; several rows are compared as multisets."""
        return self.stage.pairs_rows

    @property
    def always_present(self) -> bool:
        """Whether there is one group in every source, with or without rows."""
        return self.stage.always_present


def layout_of(stage: StagePlan, delivered: Sequence[Columns]) -> Layout:
    """The layout of a stage over the columns of its sources."""
    if stage.hashed is not None:
        # Buckets and their sums are computed here, for any columns of the sources.
        made = [PlainColumns() for _ in delivered]
        plain = layout_of(replace(stage, hashed=None), made)
        return replace(plain, hashed=_hashed(stage, stage.hashed, delivered))
    return Layout(
        stage=stage,
        keys=keys_of(stage.dimensions, delivered, "k"),
        measures=tuple(_measure(stage, plan, delivered) for plan in stage.measures),
    )


def sealing_layout(stage: StagePlan, delivered: Sequence[Columns]) -> Layout:
    """The layout of the rows of a row stage, in the form that a digest stage hashes."""
    return _hashed(stage, hashed_rows(stage.dimensions, stage.measures), delivered)


def _hashed(stage: StagePlan, rows: HashedRows, delivered: Sequence[Columns]) -> Layout:
    rows_stage = replace(stage, dimensions=rows.dimensions, measures=rows.measures, hashed=None)
    return Layout(
        stage=rows_stage,
        keys=keys_of(rows.dimensions, delivered, "k", role=Role.HASHED),
        measures=tuple(
            _measure(rows_stage, plan, delivered, role=Role.HASHED) for plan in rows.measures
        ),
    )


def keys_of(
    dimensions: Sequence[DimensionPlan],
    delivered: Sequence[Columns],
    prefix: str,
    *,
    role: Role = Role.KEY,
) -> tuple[Field, ...]:
    """Dimensions as columns `<prefix>0`, `<prefix>1` and so on."""
    return tuple(
        _field(
            _Use(
                name=f"{prefix}{at}",
                label=each.name,
                role=role,
                inputs=each.inputs,
                rules=each.rules,
            ),
            delivered,
        )
        for at, each in enumerate(dimensions)
    )


def compared_measures(layout: Layout) -> list[tuple[MeasureLayout, Field]]:
    """The compared measures with a column, in the canonical order of names."""
    named = sorted(layout.compared, key=lambda each: each.plan.name)
    return [(each, each.field) for each in named if each.field is not None]


def compared_fields(layout: Layout) -> list[Field]:
    """The columns of `compared_measures`."""
    return [each for _, each in compared_measures(layout)]


def check_covered(stage: StagePlan) -> None:
    """Refuse plans that this engine does not support; nothing has been read yet.

    Raises:
        NotCoveredError: with the stage and the field.
    """
    scope = stage.scope.dimensions if stage.scope else ()
    named: list[tuple[str, Sequence[InputPlan | None]]] = [
        (each.name, each.inputs) for each in (*stage.row_dimensions, *scope)
    ]
    named += [(each.name, each.inputs) for each in stage.row_measures if each.comparable]
    for label, inputs in named:
        for plan in inputs:
            kinds = {plan.type.kind, plan.result.kind} if plan is not None else set()
            if kinds & _ABSENT:
                what = f"the type {min(kinds & _ABSENT)}"
                raise NotCoveredError(stage=stage.name, field=label, what=what)
    for measure in stage.measures:
        _check_rounding(stage, measure)
    # The `where` of a scope is checked with its stage: both read the same scans, that one first.
    for column in (column for scan in stage.scans for column in scan.columns):
        if column.type.is_finer and column.name in named_columns(stage.where):
            what = f"a condition over {column.type}, times finer than a microsecond,"
            raise NotCoveredError(stage=stage.name, field=f"where: {column.name}", what=what)


def _check_rounding(stage: StagePlan, plan: MeasurePlan) -> None:
    types = [each.result for each in plan.inputs if each is not None]
    loose = any(each.is_float or (each.is_number and each.scale is None) for each in types)
    bare = loose and any(each.kind is not TypeKind.INT for each in types)
    if plan.function in {Function.MIN, Function.MAX} and plan.rules.round is not None and bare:
        what = f"`round` after {plan.function} of numbers without a declared scale"
        raise NotCoveredError(stage=stage.name, field=plan.name, what=what)
    deep = any((each.scale or 0) > _DEEPEST_SCALE for each in types)
    if plan.function in {Function.SUM, Function.AVG} and deep:
        what = f"{plan.function} of more than {_DEEPEST_SCALE} digits after the point"
        raise NotCoveredError(stage=stage.name, field=plan.name, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """The input of a field."""

    name: str
    label: str
    role: Role
    inputs: tuple[InputPlan | None, ...]
    rules: Rules


def _field(use: _Use, delivered: Sequence[Columns]) -> Field:
    form = _form(use, delivered)
    inputs = [plan for plan in use.inputs if plan is not None]
    return Field(
        name=use.name,
        label=use.label,
        role=use.role,
        inputs=use.inputs,
        rules=use.rules,
        form=form,
        python=tuple(plan is not None and _needs_python(use, plan, form) for plan in use.inputs),
        may_be_invalid=any(
            _may_be_invalid(plan, each)
            for plan, each in zip(use.inputs, delivered, strict=True)
            if plan is not None
        ),
        stateful=use.role is Role.AMOUNT and not all(_is_plain(plan, form) for plan in inputs),
        changes=use.role is Role.VALUE and _changes(use.rules, inputs),
    )


def _form(use: _Use, delivered: Sequence[Columns]) -> Form:
    types = [plan.result for plan in use.inputs if plan is not None]
    wide = any(
        plan is not None and plan.column in each.wide
        for plan, each in zip(use.inputs, delivered, strict=True)
    )
    match use.role:
        case Role.PRESENCE:
            return BOOL
        case Role.AMOUNT:
            return summed_form(types)
        case Role.DISTINCT:
            alone = {form_of([each], wide_integers=wide) for each in types}
            only = alone.pop()
            return TEXT if alone or only is None else only
        case _:
            return _meeting(use, types, wide=wide)


def _meeting(use: _Use, types: Sequence[CanonicalType], *, wide: bool) -> Form:
    form = form_of(types, wide_integers=wide)
    if form is None:
        raise TypeError(f"{use.label} has no form, which `check_covered` should have said")
    rules, direct = use.rules, use.role is not Role.CHOICE
    if form.kind is FormKind.DOUBLE:
        if use.role is Role.HASHED:
            return NUMBER
        written = rules.float32 is Float32Rule.SHORTEST or (direct and rules.round is not None)
        return NUMBER if written else DOUBLE
    return rounded(form, rules.round) if direct else form


def rounded(form: Form, places: int | None) -> Form:
    """The form of its values after rounding."""
    if form.kind is not FormKind.DECIMAL or places is None or places >= form.scale:
        return form
    return decimal(form.precision - form.scale + 1 + places, places)


def _needs_python(use: _Use, plan: InputPlan, form: Form) -> bool:
    """Whether it has casts, maps, JSON, Unicode rules, or floats and nested values to write."""
    rules, kind = use.rules, plan.result
    if plan.mapped or plan.cast is not None or kind.kind is TypeKind.JSON:
        return True
    if kind.kind is TypeKind.TEXT:
        return rules.case is not Case.EXACT or rules.unicode is not UnicodeForm.NONE
    if use.role is Role.PRESENCE or not kind.is_number:
        return form.kind in ENCODED and use.role is Role.VALUE and _changes(rules, [plan])
    single = rules.float32 is Float32Rule.SHORTEST
    if single or use.role is Role.DISTINCT:
        return single
    if kind.is_float:
        written = use.role is Role.VALUE and _changes(rules, [plan])
        return form.kind is not FormKind.DOUBLE or written
    bare = form.kind is FormKind.NUMBER and use.role is not Role.CHOICE
    return bare and rules.round is not None


def _may_be_invalid(plan: InputPlan, delivered: Columns) -> bool:
    bare = plan.type.kind is TypeKind.DECIMAL and plan.type.precision is None
    json = TypeKind.JSON in {plan.type.kind, plan.result.kind}
    cast = plan.cast is not None or plan.map_strict
    return bare or json or cast or plan.column in delivered.checked


def _is_plain(plan: InputPlan, form: Form) -> bool:
    """Whether every value of an amount is a number of the form."""
    kind = plan.result
    if kind.is_float or (kind.kind is TypeKind.DECIMAL and kind.scale is None):
        return False
    exact_form = form_of([kind], wide_integers=True)
    return (
        exact_form is not None
        and exact_form.precision - exact_form.scale <= form.precision - form.scale
    )


def _changes(rules: Rules, inputs: Sequence[InputPlan]) -> bool:
    """Whether the text of a value may differ from its text in the source."""
    beside_nan = replace(rules, nan=STRICT.nan)
    return beside_nan != STRICT or any(plan.mapped or plan.cast is not None for plan in inputs)


def _measure(
    stage: StagePlan,
    plan: MeasurePlan,
    delivered: Sequence[Columns],
    *,
    role: Role | None = None,
) -> MeasureLayout:
    field = None
    if plan.comparable and any(each is not None for each in plan.inputs):
        use = _Use(
            name=f"m{plan.index}",
            label=plan.name,
            role=role or _ROLES[plan.function],
            inputs=plan.inputs,
            rules=plan.rules,
        )
        field = _field(use, delivered)
    collapsed = not stage.pairs_rows
    reworked = plan.rules.null is not NullAs.KEEP or plan.rules.round is not None
    aggregated = collapsed and plan.function is not Function.VALUE
    return MeasureLayout(
        plan=plan,
        field=field,
        result=INTEGER if field is None else _result(plan, field),
        may_be_invalid=field is not None and field.may_be_invalid,
        changes=(aggregated and reworked)
        or (not collapsed and field is not None and field.changes),
    )


def _result(plan: MeasurePlan, field: Field) -> Form:
    if field.role in {Role.PRESENCE, Role.DISTINCT}:
        return INTEGER
    if field.role is not Role.AMOUNT:
        plain = field.role in {Role.VALUE, Role.HASHED}
        return field.form if plain else rounded(field.form, plan.rules.round)
    if field.stateful:
        return NUMBER
    if plan.function is Function.AVG:
        return rounded(decimal(MAX_DIGITS, plan.places or 0), plan.rules.round)
    return rounded(total_form(field.form), plan.rules.round)


def total_form(form: Form) -> Form:
    """The form of the sum of an amount's values."""
    return decimal(min(MAX_DIGITS, form.precision + _SUM_DIGITS), form.scale)
