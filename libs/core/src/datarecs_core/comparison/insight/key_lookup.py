"""The stored keys that a person may mean by a key as a source writes it.

Keys are stored after cast, zone and rules; people type keys as a source has them. Sources may
read the same text differently, so one typed key can match several stored ones. Separate from
`grouping`, which prepares rows by a plan: here only the rules in run.json are available.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import tzinfo

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.proof.sealed import (
    SealedDimension,
    SealedRun,
    SealedSource,
    SealedStage,
)
from datarecs_core.comparison.values.canonical import NULL, Value, canonical_text, text
from datarecs_core.comparison.values.casting import Cast, Zones, castable
from datarecs_core.comparison.values.normalizing import on_result
from datarecs_core.comparison.values.preparing import Preparation
from datarecs_core.comparison.values.rereading import type_of, value_of
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

Key = tuple[str | None, ...]
"""Canonical text of each dimension; None for NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReading:
    """How the keys of one stage are formed."""

    run: SealedRun
    stage: SealedStage
    zones: Mapping[str, tzinfo]
    """By name, of `zones_of`."""

    def meant(self, typed: Sequence[str]) -> tuple[Key, ...]:
        """Every stored key that the typed one may mean, the unchanged one first.

        Args:
            typed: one text for each dimension of the stage, in their order.
        """
        keys: dict[Key, None] = {tuple(typed): None}
        for index in range(-1, len(self.run.inputs)):
            pairs = zip(self.stage.dimensions, typed, strict=True)
            keys[tuple(self._part(*pair, index) for pair in pairs)] = None
        return tuple(keys)

    def _part(self, dimension: SealedDimension, written: str, index: int) -> str | None:
        """A part as the source of this index reads it; as what is stored for the index -1."""
        source = None if index < 0 else self.run.inputs[index]
        plan = _plan(dimension, index, source)
        value = _value(plan.type, written)
        if value is None:
            return written
        preparation = Preparation(
            source="" if source is None else source.name,
            plan=plan,
            rules=rules_of(dimension.rules),
            zones=Zones(known=self.zones),
        )
        made = on_result(preparation.apply(value), preparation.rules)
        return canonical_text(made)


def zones_of(run: SealedRun) -> frozenset[str]:
    """Names of the time zones that casts of a run needed."""
    return frozenset(
        change.zone for source in run.inputs for change in source.changes if change.zone is not None
    )


def rules_of(declared: Mapping[str, str]) -> Rules:
    """The rules of which `Rules.declared` is this."""
    arguments: dict[str, object] = {}
    for each in fields(Rules):
        if each.name in declared:
            word, default = declared[each.name], getattr(STRICT, each.name)
            arguments[each.name] = int(word) if default is None else type(default)(word)
    return Rules(**arguments)  # type: ignore[arg-type]  # each value belongs to its field


def _plan(dimension: SealedDimension, index: int, source: SealedSource | None) -> InputPlan:
    """How a source delivers a dimension; without one, what is stored."""
    result = type_of(dimension.types[max(index, 0)])
    if source is None:
        return InputPlan(column=dimension.column, type=result)
    delivered = dict(source.columns).get(dimension.column, result)
    change = next((each for each in source.changes if each.column == dimension.column), None)
    cast = None if change is None or change.cast is None else type_of(change.cast)
    zone = None if change is None else change.zone
    return InputPlan(column=dimension.column, type=delivered, cast=cast, zone=zone)


def _value(kind: CanonicalType, written: str) -> Value | None:
    """A text as a value of a type: in the forms that sources write, or as differences store it."""
    if kind.kind is TypeKind.TEXT:
        return text(written)
    cast = Cast(target=kind, zone=None, source="", zones=Zones(known={}))
    read = cast.apply(text(written)) if castable(types.TEXT, kind) else NULL
    if not (read.is_null or read.is_invalid):
        return read
    try:
        return value_of(kind, written)
    except ValueError:
        return None
