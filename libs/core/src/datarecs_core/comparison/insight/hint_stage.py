"""What a job can declare about the columns of one stage, so that hints recommend nothing else.

Separate from the patterns, which use only values: whether a line is accepted depends on the kind of
the source, the type of the column and the function over it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from datarecs_core.comparison.planning.plan import PRESENCE, ROWS
from datarecs_core.comparison.proof.sealed import SealedRun, SealedSource, SealedStage
from datarecs_core.comparison.values.rereading import type_of
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import READ_AS_FILES, Function, SourceKind, StageType

EXPRESSION_KINDS = frozenset({SourceKind.POSTGRES}) | READ_AS_FILES
"""Kinds of sources that compute `columns.NAME.expr`."""
_DECLARED_ELSEWHERE = frozenset({StageType.SCHEMA, StageType.DIGEST})
"""Stages with measures that are not columns of the sources."""
_PLAIN_NAME = re.compile(r"(?!(?:null|true|false)$)[A-Za-z_]\w*", re.ASCII | re.IGNORECASE)
_COUNTING = frozenset({Function.COUNT, Function.COUNT_DISTINCT})


def quoted(name: str) -> str:
    """A name as written in a line of YAML."""
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


class Place(NamedTuple):
    """Where a pattern is: a measure, or a dimension, of a stage and its column."""

    stage: str
    name: str
    column: str


class HintSource(NamedTuple):
    """The part of a source that hints use."""

    name: str
    kind: SourceKind
    types: Mapping[str, CanonicalType]
    """By logical column, as delivered."""
    physical: Mapping[str, str]
    """The source's name of a logical column."""


class HintColumn(NamedTuple):
    """A measure or dimension."""

    column: str | None
    """Logical; None for a number of rows."""
    kind: TypeKind | None = None
    """Of what is compared; None where the document does not have it."""
    function: Function = Function.VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class HintStage:
    """One stage of a finished run."""

    name: str
    type: StageType
    reference: str
    sources: tuple[HintSource, ...]
    """In the order of the presence bits."""
    dimensions: Mapping[str, HintColumn]
    """In the order of the keys."""
    measures: Mapping[str, HintColumn] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    def source(self, name: str) -> HintSource:
        return next(source for source in self.sources if source.name == name)

    def place(self, name: str) -> Place:
        """Of a measure or dimension."""
        column = self.column(name)
        return Place(self.name, name, column.column or name)

    def column(self, name: str) -> HintColumn:
        return self.measures.get(name) or self.dimensions.get(name) or HintColumn(None)

    def reads_columns(self, name: str) -> bool:
        """Whether declarations about a source's columns change this measure or dimension."""
        column = self.column(name)
        return (
            self.type not in _DECLARED_ELSEWHERE | {StageType.CUSTOM_SQL}
            and column.column is not None
            and column.function not in _COUNTING
        )

    def normalizes(self, name: str) -> bool:
        """Whether a rule of `normalize.columns` changes this measure or dimension."""
        column = self.column(name)
        return self.type not in _DECLARED_ELSEWHERE and column.column is not None

    def typed(self, column: str, kind: TypeKind) -> Iterable[HintSource]:
        """Sources that deliver a column in this type."""
        return (each for each in self.sources if _kind(each, column) is kind)


def _kind(source: HintSource, column: str) -> TypeKind | None:
    column_type = source.types.get(column)
    return None if column_type is None else column_type.kind


def hint_stage(run: SealedRun, stage: SealedStage) -> HintStage:
    """The stage from a finished run's document."""
    measures = {
        each.name: HintColumn(each.column, _first_kind(each.types), each.function)
        for each in stage.measures
    }
    return HintStage(
        name=stage.name,
        type=stage.type,
        reference=run.sources[stage.reference],
        sources=tuple(map(_source, run.inputs)),
        dimensions={
            each.name: HintColumn(each.column, _first_kind(each.types)) for each in stage.dimensions
        },
        measures={**measures, ROWS: HintColumn(None), PRESENCE: HintColumn(None)},
    )


def _source(source: SealedSource) -> HintSource:
    return HintSource(source.name, source.kind, dict(source.columns), source.physical)


def _first_kind(types: Iterable[str | None]) -> TypeKind | None:
    written = next((each for each in types if each is not None), None)
    return None if written is None else type_of(written).kind
