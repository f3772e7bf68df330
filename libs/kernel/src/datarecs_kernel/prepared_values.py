"""Values that SQL cannot prepare, by columns of Arrow: casts, maps, Unicode, JSON, written floats.

The rules of core are applied once to every distinct value; the resulting columns are those of a
layout. DuckDB's functions call this (`value_functions`).
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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

AMBIGUOUS = "dst"
"""Column: number of values that are ambiguous because of an offset change."""
_MOST_KNOWN = 100_000
"""Limit of cached distinct values of a column; above it the cache is emptied."""
_LONGEST_KNOWN = 4096
"""Maximum characters or bytes of a cached value."""


class _Cell(NamedTuple):
    value: object
    payload: bytes | None
    state: int
    raw: str | None
    raw_order: str | None
    ambiguous: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnInput:
    """One field of one source that is prepared here."""

    field: Field
    plan: InputPlan
    source: str
    base: Form
    """The form of the input value."""

    @property
    def columns(self) -> tuple[tuple[str, pa.DataType], ...]:
        """Name and type of the result columns, `dst` last."""
        field = self.field
        made = [(field.name, native(field.form))]
        if field.may_be_invalid:
            made.append((field.payload, pa.binary()))
        if field.stateful:
            made.append((field.state, pa.int32()))
        if field.changes:
            made += [(field.raw, pa.string()), (field.raw_order, pa.string())]
        return (*made, (AMBIGUOUS, pa.int32()))


class ColumnPreparation:
    """Prepares a column, batch by batch; several threads may call it at the same time."""

    def __init__(self, column: ColumnInput) -> None:
        self._column = column
        # DuckDB's threads are new to Python at each call, so thread-local data is not possible.
        self._idle: list[_Cells] = []

    def prepared(self, values: pa.Array, payloads: pa.Array) -> dict[str, pa.Array]:
        """The columns of the field and `dst`, from values and payloads of INVALID values."""
        try:
            cells = self._idle.pop()
        except IndexError:
            cells = _Cells(self._column)
        made = cells.of(values, payloads)
        self._idle.append(cells)
        parts = (
            zip(*made.distinct, strict=True) if made.distinct else iter([()] * len(_Cell._fields))
        )
        by_name = dict(zip(_names(self._column.field), map(list, parts), strict=True))
        at = pa.array(made.places)
        return {name: pa.array(by_name[name], kind).take(at) for name, kind in self._column.columns}


def _names(field: Field) -> tuple[str, ...]:
    """In the order of a cell."""
    return field.name, field.payload, field.state, field.raw, field.raw_order, AMBIGUOUS


class _Made(NamedTuple):
    """Cells of a batch: the distinct ones, and their index per row."""

    distinct: list[_Cell]
    places: np.ndarray[tuple[int], np.dtype[np.int64]]


class _Cells:
    """The cache of a column; one thread uses it at a time."""

    def __init__(self, column: ColumnInput) -> None:
        self._column, self._field = column, column.field
        zone = column.plan.zone
        self._zones = Zones(known={} if zone is None else {zone: zone_of(zone)})
        self._preparation = Preparation(
            source=column.source, plan=column.plan, rules=self._field.rules, zones=self._zones
        )
        self._known: dict[object, _Cell] = {}
        self._null: _Cell | None = None

    def of(self, values: pa.Array, payloads: pa.Array) -> _Made:
        plain = values.dictionary_encode()
        distinct = [self._remembered(value) for value in plain.dictionary.to_pylist()]
        places = pc.fill_null(plain.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        if plain.null_count:
            if self._null is None:
                self._null = self._cell(NULL)
            places[places < 0] = len(distinct)
            distinct.append(self._null)
        if payloads.null_count < len(payloads):
            broken = payloads.dictionary_encode()
            where = pc.fill_null(broken.indices, -1).to_numpy(zero_copy_only=False)
            is_broken = where >= 0
            places[is_broken] = where[is_broken] + len(distinct)
            distinct += [self._cell(invalid_of(raw)) for raw in broken.dictionary.to_pylist()]
        return _Made(distinct, places)

    def _remembered(self, plain: object) -> _Cell:
        cell = self._known.get(plain)
        if cell is None:
            cell = self._cell(self._delivered(plain))
            if not (isinstance(plain, str | bytes) and len(plain) > _LONGEST_KNOWN):
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[plain] = cell
        return cell

    def _cell(self, delivered: Value) -> _Cell:
        field, source = self._field, self._column.source
        met = self._zones.ambiguous.get(source, 0)
        value = self._preparation.apply(delivered)
        ambiguous = self._zones.ambiguous.get(source, 0) - met
        if field.role in {Role.KEY, Role.VALUE, Role.HASHED}:
            value = on_result(value, field.rules)
        raw, order = (
            (canonical_text(delivered), sort_key_of(delivered)) if field.changes else (None, None)
        )
        if value.is_invalid:
            return _Cell(None, encode(value)[5:], 0, raw, order, ambiguous)
        if field.role is Role.AMOUNT:
            is_float = self._column.plan.result.is_float
            amount, state = column_amount(value, field.form, is_float=is_float)
            return _Cell(amount, None, state, raw, order, ambiguous)
        return _Cell(column_value(value, field), None, 0, raw, order, ambiguous)

    def _delivered(self, plain: object) -> Value:
        if self._column.plan.type.kind is TypeKind.JSON:
            written = json_value(str(plain))
            if written is None:
                raw = str(plain).encode(errors="surrogatepass")
                return invalid(self._column.source, raw)
            return Value(Tag.JSON, written)
        return decoded(self._column.base, plain)


@cache
def zone_of(zone: str) -> ZoneInfo:
    """From the pinned time zone tables, not from those of the system."""
    place = files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    with place.open("rb") as table:
        return ZoneInfo.from_file(table, zone)
