"""How the sources' columns get one type: casts, maps, zones, and types that cannot be compared.

The planner's second step, for one dimension or measure at a time. Nothing is guessed: a missing
declaration is a fault.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from datarecs_core.comparison.planning.logical import LogicalSource
from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.values.casting import castable, needs_zone
from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind, comparable

NO_MAPS: Mapping[str, Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """One column over all sources."""

    inputs: tuple[InputPlan, ...]
    faults: tuple[Fault, ...] = ()
    comparable: bool = True
    text_as_uuid: bool = False
    """Warning IMPLICIT_TEXT_UUID is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnUse:
    """A dimension or measure uses a logical column of every source."""

    column: str
    path: Path
    """Where the job names it."""
    maps: Mapping[str, Mapping[str, str]]
    map_strict: bool = False


def align(sources: Sequence[LogicalSource], use: ColumnUse) -> Alignment:
    """Convert the sources' columns to comparable types; every source must have the column."""
    missing = [fault for source in sources if (fault := source.fault_of(use.column, use.path))]
    if missing:
        return Alignment(inputs=(), faults=tuple(missing), comparable=False)
    inputs = [_declared(source, use) for source in sources]
    inputs = _mapped_types(inputs)
    inputs, text_as_uuid = _uuids(inputs)
    inputs, zone_faults = _zones(sources, inputs, use)
    cast_faults = [
        fault
        for source, each in zip(sources, inputs, strict=True)
        if (fault := _impossible_cast(source, each, use))
    ]
    mismatch = _mismatch(sources, inputs, use)
    faults = (*zone_faults, *cast_faults, *([mismatch] if mismatch and not zone_faults else []))
    return Alignment(
        inputs=tuple(inputs),
        faults=faults,
        comparable=mismatch is None,
        text_as_uuid=text_as_uuid,
    )


def _declared(source: LogicalSource, use: ColumnUse) -> InputPlan:
    mapping = use.maps.get(source.name)
    return InputPlan(
        column=use.column,
        type=source.type_of(use.column),
        mapped=mapping is not None,
        map=tuple(sorted((mapping or {}).items())),
        map_strict=use.map_strict and mapping is not None,
        cast=source.source.cast.get(use.column),
    )


def _mapped_types(inputs: list[InputPlan]) -> list[InputPlan]:
    """A map translates into the type of the sources without one, unless a cast is declared."""
    others = [each.result for each in inputs if not each.mapped]
    if not others:
        first = inputs[0].result
        alike = all(comparable(first, each.result) for each in inputs)
        others = [first if alike else types.TEXT]
    return [
        replace(each, cast=others[0])
        if each.mapped and each.cast is None and not comparable(each.result, others[0])
        else each
        for each in inputs
    ]


def _uuids(inputs: list[InputPlan]) -> tuple[list[InputPlan], bool]:
    kinds = {each.result.kind for each in inputs}
    if kinds != {TypeKind.TEXT, TypeKind.UUID}:
        return inputs, False
    return [
        replace(each, cast=types.UUID) if each.result.kind is TypeKind.TEXT else each
        for each in inputs
    ], True


def _zones(
    sources: Sequence[LogicalSource], inputs: list[InputPlan], use: ColumnUse
) -> tuple[list[InputPlan], list[Fault]]:
    """Naive times become instants as soon as one source is aware or declares its zone."""
    aware = any(
        each.result.kind is TypeKind.INSTANT
        or (each.result.kind is TypeKind.LOCAL_TIMESTAMP and source.source.timezone is not None)
        for source, each in zip(sources, inputs, strict=True)
    )
    made: list[InputPlan] = []
    faults: list[Fault] = []
    for source, each in zip(sources, inputs, strict=True):
        naive = aware and each.result.kind is TypeKind.LOCAL_TIMESTAMP
        step = _to_instant(each) if naive else each
        if naive or (step.cast is not None and needs_zone(step.type, step.cast)):
            step = replace(step, zone=source.source.timezone)
            if step.zone is None:
                faults.append(_zone_fault(source, use))
        made.append(step)
    return made, faults


def _to_instant(each: InputPlan) -> InputPlan:
    return replace(each, cast=CanonicalType(kind=TypeKind.INSTANT, precision=each.result.precision))


def _zone_fault(source: LogicalSource, use: ColumnUse) -> Fault:
    return Fault(
        code=SpecCode.ZONE_REQUIRED,
        path=use.path,
        message=f"{use.column} of source {source.name} is a time without zone, another source's is "
        "an instant",
        hint=f"declare `timezone` of source {source.name}",
    )


def _impossible_cast(source: LogicalSource, each: InputPlan, use: ColumnUse) -> Fault | None:
    if each.cast is None or each.mapped or castable(each.type, each.cast):
        return None
    return Fault(
        code=SpecCode.INCOMPATIBLE_TYPES,
        path=("spec", "sources", source.index, "cast", use.column),
        message=f"{use.column} of source {source.name} is {each.type}, which has no cast to "
        f"{each.cast}",
        hint="declare a `map` or an `expr`",
    )


def _mismatch(
    sources: Sequence[LogicalSource], inputs: Sequence[InputPlan], use: ColumnUse
) -> Fault | None:
    first = inputs[0].result
    if all(comparable(first, each.result) for each in inputs):
        return None
    seen = ", ".join(
        f"{each.result} in {source.name}" for source, each in zip(sources, inputs, strict=True)
    )
    return Fault(
        code=SpecCode.INCOMPATIBLE_TYPES,
        path=use.path,
        message=f"{use.column} is {seen}: these types cannot be compared",
        hint=text_hint(sources, use.column)
        or "declare a `cast` in one of the sources, or a `map` of the measure",
    )


def text_hint(sources: Sequence[LogicalSource], column: str) -> str:
    """Which value made a column of a text file text, and what to declare; empty where none did."""
    return "; ".join(
        f"source {source.name}: {note.message}; {note.hint}"
        for source in sources
        if (note := source.note_of(column)) is not None
        and source.type_of(column).kind is TypeKind.TEXT
    )
