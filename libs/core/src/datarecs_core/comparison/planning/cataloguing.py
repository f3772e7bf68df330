"""Schema stages: the columns of every source as rows, and when two types count as equal.

Columns are known before any row is read, so the plan holds them; engines compare them like rows.
What `schema` relaxes becomes maps from type to type in the plan, shown wherever maps are shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from datarecs_core.comparison.planning.logical import LogicalSource
from datarecs_core.comparison.planning.plan import (
    Catalogue,
    ColumnRow,
    DimensionPlan,
    InputPlan,
    MeasurePlan,
    StagePlan,
)
from datarecs_core.comparison.planning.scan import Scan, ScanColumn
from datarecs_core.errors.faults import Fault, Path
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import SchemaPolicy
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Function, SchemaMode

COLUMN, TYPE, NULLABLE, POSITION = "column", "type", "nullable", "position"
_NUMBER = "number"
"""What every type of numbers counts as where types need only be comparable."""
CATALOGUE_COLUMNS = (
    ScanColumn(name=COLUMN, physical=COLUMN, type=types.TEXT),
    ScanColumn(name=TYPE, physical=TYPE, type=types.TEXT),
    ScanColumn(name=NULLABLE, physical=NULLABLE, type=types.BOOL),
    ScanColumn(name=POSITION, physical=POSITION, type=types.INT),
)
"""What a source delivers to a schema stage."""


def catalogue_of(sources: Sequence[LogicalSource], policy: SchemaPolicy) -> Catalogue:
    """The columns of every source but the ignored ones, in the order of the source."""
    return Catalogue(
        policy=policy, columns=tuple(_columns_of(source, policy) for source in sources)
    )


def catalogue_faults(
    sources: Sequence[LogicalSource], catalogue: Catalogue, path: Path
) -> list[Fault]:
    """Columns without a single type, unless they are ignored."""
    candidates = []
    for source, columns in zip(sources, catalogue.columns, strict=True):
        untyped = source.undelivered.keys() - source.columns.keys() - set(catalogue.policy.ignore)
        candidates += [source.naming_fault(column.name, path) for column in columns]
        candidates += [source.fault_of(name, path) for name in sorted(untyped)]
    return [fault for fault in candidates if fault is not None]


def column_dimension(sources: int) -> DimensionPlan:
    """The group of a schema stage: a logical column by its exact name."""
    return DimensionPlan(name=COLUMN, inputs=(InputPlan(column=COLUMN, type=types.TEXT),) * sources)


def column_measures(
    sources: Sequence[LogicalSource], catalogue: Catalogue
) -> tuple[MeasurePlan, ...]:
    """`type` unless only names are compared, then `nullable` and `position` where declared."""
    policy = catalogue.policy
    inputs: dict[str, tuple[InputPlan, ...]] = {}
    if policy.mode is not SchemaMode.NAMES:
        inputs[TYPE] = _type_inputs(sources, catalogue)
    if policy.nullability:
        inputs[NULLABLE] = (InputPlan(column=NULLABLE, type=types.BOOL),) * len(sources)
    if policy.order:
        inputs[POSITION] = (InputPlan(column=POSITION, type=types.INT),) * len(sources)
    return tuple(
        MeasurePlan(name=name, index=index, function=Function.VALUE, inputs=each)
        for index, (name, each) in enumerate(inputs.items())
    )


def over_columns(stage: StagePlan) -> StagePlan:
    """A schema stage as a stage over the rows of `column_rows`."""
    return replace(stage, scans=tuple(_scan(scan) for scan in stage.scans))


def column_rows(stage: StagePlan) -> list[list[tuple[object, ...]]]:
    """Per source one row per column, in the order of `CATALOGUE_COLUMNS`."""
    columns = () if stage.catalogue is None else stage.catalogue.columns
    return [
        [(each.name, each.type, each.nullable, each.position) for each in rows] for rows in columns
    ]


def _scan(scan: Scan) -> Scan:
    return replace(scan, columns=CATALOGUE_COLUMNS, filter=None, extract=None)


def _columns_of(source: LogicalSource, policy: SchemaPolicy) -> tuple[ColumnRow, ...]:
    declared = {column.name: column for column in source.schema.columns}
    computed = {column.name: column for column in source.schema.expressions}
    order = [column.name for column in source.schema.columns]
    ignored = source.metadata.union(policy.ignore)
    columns = [each for each in source.columns.values() if each.name not in ignored]
    columns.sort(
        key=lambda each: len(order) if each.physical is None else order.index(each.physical)
    )
    return tuple(
        ColumnRow(
            name=each.name,
            type=str(_declared_type(source, each.name)),
            nullable=(
                computed[each.name] if each.physical is None else declared[each.physical]
            ).nullable,
            position=position,
        )
        for position, each in enumerate(columns, start=1)
    )


def _declared_type(source: LogicalSource, column: str) -> CanonicalType:
    """A cast is a declaration of the job: the column is of that type to every stage."""
    return source.source.cast.get(column) or source.type_of(column)


def _type_inputs(sources: Sequence[LogicalSource], catalogue: Catalogue) -> tuple[InputPlan, ...]:
    """Maps from each type as written to the type it counts as, where that differs."""
    equivalences = _equivalences(catalogue.policy)
    inputs = []
    for source, columns in zip(sources, catalogue.columns, strict=True):
        kinds = [_declared_type(source, column.name) for column in columns]
        counted = {str(kind): _counted_as(source, kind, catalogue, equivalences) for kind in kinds}
        changed = tuple(sorted((one, other) for one, other in counted.items() if one != other))
        inputs.append(InputPlan(column=TYPE, type=types.TEXT, mapped=bool(changed), map=changed))
    return tuple(inputs)


def _counted_as(
    source: LogicalSource,
    kind: CanonicalType,
    catalogue: Catalogue,
    equivalences: Mapping[str, str],
) -> str:
    mode = catalogue.policy.mode
    if mode is SchemaMode.COMPATIBLE and source.source.timezone is not None:
        kind = types.INSTANT if kind.kind is TypeKind.LOCAL_TIMESTAMP else kind
    exact = _class_of(kind, mode)
    bare = _class_of(CanonicalType(kind=kind.kind), mode)
    if exact not in equivalences and not kind.members:
        return equivalences.get(bare, exact)
    return equivalences.get(exact, exact)


def _class_of(kind: CanonicalType, mode: SchemaMode) -> str:
    """Equal for types that the mode calls equal."""
    if mode is not SchemaMode.COMPATIBLE:
        return str(kind)
    return str(types.TEXT) if kind.kind is TypeKind.UUID else _comparable_class(kind)


def _comparable_class(kind: CanonicalType) -> str:
    if kind.is_number:
        return _NUMBER
    if not kind.members:
        return kind.kind.value
    parts = (f"{name}: {_comparable_class(member)}" for name, member in sorted(kind.members))
    return f"{kind.kind.value}<{', '.join(parts)}>"


def _equivalences(policy: SchemaPolicy) -> dict[str, str]:
    """The first type of each declared group for all of it; groups that share a type are one."""
    first_types: dict[str, str] = {}
    for group in policy.equivalences:
        members = [_class_of(kind, policy.mode) for kind in group]
        roots = {first_types.get(member, member) for member in members}
        first = first_types.get(members[0], members[0])
        first_types.update({member: first for member, root in first_types.items() if root in roots})
        first_types.update(dict.fromkeys(members, first))
    return first_types
