"""Columns without any value: they have every type, so each takes the type of its partners.

The planner's step between naming columns and aligning them, separate because it uses all
sources at once. A column without a value in any source is text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from datarecs_core.comparison.planning.logical import LogicalSource, logical_source
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind


def with_partner_types(sources: Sequence[LogicalSource]) -> list[LogicalSource]:
    """The sources, each column without a value in the type of the others' column of its name."""
    return [
        source
        if all(column.type.is_known for column in source.schema.columns)
        else _typed(source, sources)
        for source in sources
    ]


def _typed(source: LogicalSource, sources: Sequence[LogicalSource]) -> LogicalSource:
    types: dict[str, CanonicalType] = {}
    for name, column in source.columns.items():
        if column.physical is not None and not column.type.is_known:
            partners = [_compared_type(source, name)]
            partners += [_compared_type(each, name) for each in sources if name in each.columns]
            known = types.get(column.physical, column.type)
            for partner in partners:
                known = _filled(known, partner)
            types[column.physical] = known
    columns = tuple(
        replace(each, type=_or_text(types.get(each.name, each.type)))
        for each in source.schema.columns
    )
    # Expressions are typed again over the columns that they name.
    schema = replace(source.schema, columns=columns, expressions=())
    return logical_source(source.source, source.index, schema)


def _compared_type(source: LogicalSource, name: str) -> CanonicalType:
    """In which a source's column is compared: a local time of a declared zone is an instant."""
    kind = source.source.cast.get(name, source.type_of(name))
    if kind.kind is TypeKind.LOCAL_TIMESTAMP and source.source.timezone is not None:
        return replace(kind, kind=TypeKind.INSTANT)
    return kind


def _filled(kind: CanonicalType, partner: CanonicalType) -> CanonicalType:
    """The type with what is unknown taken from a partner."""
    if kind.kind is TypeKind.NULL:
        return partner
    if kind.kind is not partner.kind or kind.is_known:
        return kind
    others: Mapping[str, CanonicalType] = dict(partner.members)
    members = tuple(
        (name, _filled(member, others.get(name, member))) for name, member in kind.members
    )
    return replace(kind, members=members)


def _or_text(kind: CanonicalType) -> CanonicalType:
    if kind.kind is TypeKind.NULL:
        return types.TEXT
    return replace(kind, members=tuple((name, _or_text(each)) for name, each in kind.members))
