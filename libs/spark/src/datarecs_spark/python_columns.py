"""The Arrow step for values that SQL cannot prepare: floats as decimals, Unicode, casts, JSON.

One step per source carries all such columns (spec comparison 12, E3); it applies the very functions
that the oracle applies, value by value, and hands typed columns back.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import DataFrame

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    canonical_text,
    encode,
    invalid,
)
from datarecs_core.comparison.values.casting import Zones
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.comparison.values.normalizing import on_result
from datarecs_core.comparison.values.preparing import Preparation
from datarecs_core.jobs.types import TypeKind
from datarecs_kernel.amounts import column_amount, column_value
from datarecs_kernel.decoding import decoded, invalid_of, native
from datarecs_kernel.forms import Form
from datarecs_kernel.layout import Field, Role
from datarecs_kernel.sort_keys import sort_key_of

Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonColumn:
    """One field of one source that is prepared here."""

    field: Field
    plan: InputPlan
    source: str
    base: Form
    """In which the delivered value comes."""


def python_step(rows: DataFrame, columns: tuple[PythonColumn, ...]) -> DataFrame:
    """The rows with the columns replaced by their prepared ones, and `dst` beside them."""
    made = {label: kind for each in columns for label, kind in each.field.columns}
    taken = {label for each in columns for label in (each.field.name, each.field.payload)}
    kept = [field for field in rows.schema.fields if field.name not in taken]
    kinds = [f"`{field.name}` {field.dataType.simpleString()}" for field in kept]
    schema = ", ".join([*kinds, *(f"`{label}` {kind}" for label, kind in made.items()), "dst INT"])
    return rows.mapInArrow(_step(columns, [field.name for field in kept]), schema)


def _step(columns: tuple[PythonColumn, ...], kept: list[str]) -> Step:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        preparing = [_Preparing(each) for each in columns]
        for batch in batches:
            arrays = [batch.column(label) for label in kept]
            names = list(kept)
            ambiguous = [0] * batch.num_rows
            for each in preparing:
                for label, made in each.columns(batch, ambiguous).items():
                    names.append(label)
                    arrays.append(made)
            arrays.append(pa.array(ambiguous, pa.int32()))
            yield pa.RecordBatch.from_arrays(arrays, names=[*names, "dst"])

    return step


class _Preparing:
    """One column over the batches of a task."""

    def __init__(self, column: PythonColumn) -> None:
        self.column, self.field = column, column.field
        zone = column.plan.zone
        self.zones = Zones(known={} if zone is None else {zone: zone_of(zone)})
        self.preparation = Preparation(
            source=column.source, plan=column.plan, rules=self.field.rules, zones=self.zones
        )

    def columns(self, batch: pa.RecordBatch, ambiguous: list[int]) -> dict[str, pa.Array]:
        cells = [
            self._cell(value, payload, ambiguous, at)
            for at, (value, payload) in enumerate(
                zip(
                    batch.column(self.field.name).to_pylist(),
                    batch.column(self.field.payload).to_pylist(),
                    strict=True,
                )
            )
        ]
        made = {self.field.name: pa.array([cell[0] for cell in cells], native(self.field.form))}
        if self.field.may_be_invalid:
            made[self.field.payload] = pa.array([cell[1] for cell in cells], pa.binary())
        if self.field.stateful:
            made[self.field.state] = pa.array([cell[2] for cell in cells], pa.int32())
        if self.field.changes:
            made[self.field.raw] = pa.array([cell[3] for cell in cells], pa.string())
            made[self.field.raw_order] = pa.array([cell[4] for cell in cells], pa.string())
        return made

    def _cell(
        self, plain: object, payload: bytes | None, ambiguous: list[int], at: int
    ) -> tuple[object, bytes | None, int, str | None, str | None]:
        """Value, payload of INVALID, state, text before rules and what sorts it."""
        raw = self._delivered(plain, payload)
        met = self.zones.ambiguous.get(self.column.source, 0)
        value = self.preparation.apply(raw)
        ambiguous[at] += self.zones.ambiguous.get(self.column.source, 0) - met
        if self.field.role in {Role.KEY, Role.VALUE, Role.HASHED}:
            value = on_result(value, self.field.rules)
        before = (canonical_text(raw), sort_key_of(raw)) if self.field.changes else (None, None)
        if value.is_invalid:
            return None, encode(value)[5:], 0, *before
        if self.field.role is Role.AMOUNT:
            amount, state = column_amount(value, self.field.form, is_float=self._is_float)
            return amount, None, state, *before
        return column_value(value, self.field), None, 0, *before

    def _delivered(self, plain: object, payload: bytes | None) -> Value:
        if payload is not None:
            return invalid_of(payload)
        if plain is None:
            return NULL
        if self.column.plan.type.kind is TypeKind.JSON:
            written = json_value(str(plain))
            if written is None:
                return invalid(self.column.source, str(plain).encode(errors="surrogatepass"))
            return Value(Tag.JSON, written)
        return decoded(self.column.base, plain)

    @property
    def _is_float(self) -> bool:
        return self.column.plan.result.is_float


@cache
def zone_of(zone: str) -> ZoneInfo:
    """From the locked tables, whatever the system has."""
    place = files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    with place.open("rb") as table:
        return ZoneInfo.from_file(table, zone)
