"""Stored columns in the form of their type, before map, cast and rules.

Converts types of DuckDB to forms of the kernel: times become numbers, -0.0 becomes 0.0, and a value
that numeric without precision cannot hold is INVALID.
"""

from dataclasses import dataclass, replace

from datarecs_core.comparison.values.canonical import encode, text
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind
from datarecs_kernel.encoding import blob, plain_number
from datarecs_kernel.forms import NUMBER, Form, FormKind, form_of
from datarecs_kernel.stored_files import StoredColumn

_LATEST, _EARLIEST = 2**63 - 1, -(2**63) + 1
"""Values that represent the infinities in columns of microseconds."""
_EPOCH = "DATE '1970-01-01'"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseColumn:
    """SQL of a column of a source."""

    form: Form
    value: str
    source: str
    raw: str | None = None
    """Bytes of INVALID values, else NULL; None if there are none."""

    @property
    def payload(self) -> str:
        """The payload of INVALID values in the encoding: never equal to that of another source."""
        if self.raw is None:
            return "CAST(NULL AS BLOB)"
        return f"({blob(encode(text(self.source)))} || {self.raw})"

    @property
    def is_invalid(self) -> str:
        return "FALSE" if self.raw is None else f"({self.raw} IS NOT NULL)"


def base_column(
    stored: StoredColumn | None,
    kind: CanonicalType,
    source: str,
    *,
    wide: bool = False,
    raw: str | None = None,
) -> BaseColumn:
    """A stored column as values of its canonical type.

    Args:
        stored: None (all NULL) if the column is missing in the files.
        kind: its type in the scan.
        source: of the column.
        wide: it may contain unsigned numbers of 64 bits.
        raw: SQL of the companion column with the bytes of INVALID values.
    """
    form = form_of([kind], wide_integers=wide)
    if form is None:
        raise TypeError(f"{kind} has no form, which `check_covered` should have said")
    if stored is None:
        return BaseColumn(form=form, value=null_of(form), source=source)
    if kind.kind is TypeKind.TEXT and stored.type == "BLOB":
        return _checked_text(stored, form, source)
    base = BaseColumn(form=form, value=_value(stored, kind, form), source=source, raw=raw)
    return _bare_numeric(base) if form.kind is FormKind.NUMBER else base


def duckdb_type(sql_type: str) -> str:
    """The form of a column type in layouts."""
    return {"STRING": "VARCHAR", "BINARY": "BLOB", "INT": "INTEGER"}.get(sql_type, sql_type)


def null_of(form: Form) -> str:
    return f"CAST(NULL AS {duckdb_type(form.sql_type)})"


def _checked_text(stored: StoredColumn, form: Form, source: str) -> BaseColumn:
    """Bytes as text; bytes that are not UTF-8 are INVALID."""
    value = f"TRY(decode({stored.sql}))"
    raw = f"CASE WHEN {stored.sql} IS NOT NULL AND {value} IS NULL THEN {stored.sql} END"
    return BaseColumn(form=form, value=value, source=source, raw=raw)


def _value(stored: StoredColumn, kind: CanonicalType, form: Form) -> str:
    column = stored.sql
    match kind.kind:
        case TypeKind.FLOAT32 | TypeKind.FLOAT64:
            # Adding zero turns -0.0 into 0.0 and changes no other value.
            return f"(CAST({column} AS DOUBLE) + CAST(0 AS DOUBLE))"
        case TypeKind.DATE:
            return f"({column} - {_EPOCH})"
        case TypeKind.UUID | TypeKind.BINARY:
            return _bytes(stored)
        case _ if form.is_moment:
            return _moment(stored, form)
        case _:
            wanted = duckdb_type(form.sql_type)
            return column if stored.type == wanted else f"CAST({column} AS {wanted})"


def _bytes(stored: StoredColumn) -> str:
    """Binaries unchanged; UUIDs as 16 bytes."""
    if stored.type == "BLOB":
        return stored.sql
    return f"unhex(replace(CAST({stored.sql} AS VARCHAR), '-', ''))"


def _moment(stored: StoredColumn, form: Form) -> str:
    """Microseconds; nanoseconds as their exact fractions."""
    column, is_finer = stored.sql, stored.type.endswith("_NS")
    units = f"epoch_ns({column})" if is_finer else f"epoch_us({column})"
    if stored.type.startswith("TIMESTAMP"):
        # DuckDB uses the first and last of 64 bits as infinities, which have no number.
        edges = (
            f"CASE WHEN {column} = 'infinity' THEN {_LATEST} "
            f"WHEN {column} = '-infinity' THEN {_EARLIEST} END"
        )
        units = f"coalesce({units}, {edges})"
    if is_finer:
        units = f"(CAST({units} AS DECIMAL(19,0)) * CAST(0.001 AS DECIMAL(4,3)))"
    return f"CAST({units} AS {form.sql_type})" if form.is_finer else units


def _bare_numeric(base: BaseColumn) -> BaseColumn:
    """Text of a number; a number of more than 38 digits is INVALID."""
    column = base.value
    plain = plain_number(column)
    written = (
        f"CASE {column} WHEN 'Infinity' THEN 'Inf' WHEN '-Infinity' THEN '-Inf' "
        f"WHEN '-0' THEN '0' ELSE {plain} END"
    )
    zero = f"CASE WHEN regexp_matches({plain}, '^-?0') THEN 1 ELSE 0 END"
    digits = f"strlen(replace(replace({plain}, '-', ''), '.', '')) - {zero}"
    wide = f"({column} NOT IN ('NaN', 'Infinity', '-Infinity') AND {digits} > {MAX_DIGITS})"
    raw = f"CASE WHEN {wide} THEN encode({column}) ELSE {base.raw or 'CAST(NULL AS BLOB)'} END"
    return replace(base, form=NUMBER, value=f"CASE WHEN NOT {wide} THEN {written} END", raw=raw)
