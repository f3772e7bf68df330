"""Ranks of groups: `core.comparison.results.differences.group_rank` as SQL over key columns.

The rank decides which of too many differences are stored. It is the first 64 bits of the MD5 of the
key's parts, written without dictionaries or encodings, so it costs less than a join.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datarecs_core.comparison.results.differences import group_rank
from datarecs_kernel.database import Connection, quoted
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.hashing import computed
from datarecs_kernel.layout import Field

Ranks = NDArray[np.uint64]
_LOW_BITS = f"{2**64 - 1}::UHUGEINT"


def ranks_of(connection: Connection, keys: Sequence[Field], rows: pa.RecordBatch) -> Ranks:
    """One rank per row of key columns, in their order.

    Args:
        connection: any.
        keys: fields of the layout.
        rows: their columns.
    """
    if not keys:
        return np.full(rows.num_rows, group_rank(()), np.uint64)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    ranks = computed(connection, columns, rank_sql(keys))
    return np.asarray(ranks.to_numpy(zero_copy_only=False), np.uint64)


def rank_sql(keys: Sequence[Field]) -> str:
    """The rank of a row, from its key columns."""
    written = " || ".join(_part(field) for field in keys)
    # The bytes of MD5 are a number with the lowest byte first.
    return f"CAST(md5_number({written}) & {_LOW_BITS} AS UBIGINT)"


def _part(field: Field) -> str:
    column = quoted(field.name)
    written = f"coalesce({_text(field.form, column)}, '~')"
    if not field.may_be_invalid:
        return written
    payload = quoted(field.payload)
    return f"CASE WHEN {payload} IS NULL THEN {written} ELSE 'x' || hex({payload}) || ';' END"


def _text(form: Form, column: str) -> str:
    """The text that core writes for a value; NULL of NULL."""
    match form.kind:
        case FormKind.TEXT | FormKind.JSON:
            return f"strlen({column}) || ':' || {column}"
        case FormKind.BINARY | FormKind.UUID:
            return f"hex({column}) || ';'"
        case FormKind.DOUBLE:
            return f"{_double_text(column)} || ';'"
        case _ if form.scale:
            return f"{_decimal_text(form, column)} || ';'"
        case _:
            return f"CAST({column} AS VARCHAR) || ';'"


def _decimal_text(form: Form, column: str) -> str:
    """A decimal without trailing zeros, and with a digit before the point."""
    written = f"CAST({column} AS VARCHAR)"
    if form.scale == form.precision:
        # DuckDB writes `.50` if the type has no digit before the point.
        sign = f"if({column} < 0, '-0', '0')"
        written = f"{sign} || ltrim({written}, '-')"
    return f"rtrim(rtrim({written}, '0'), '.')"


def _double_text(column: str) -> str:
    """Shortest digits without an exponent, as `canonical.number_text` writes them."""
    written = f"CAST({column} AS VARCHAR)"
    exponent = f"CAST(split_part({written}, 'e', 2) AS INTEGER)"
    digits = f"regexp_replace(split_part({written}, 'e', 1), '[-.]', '', 'g')"
    sign = f"if({column} < 0, '-', '')"
    return (
        f"CASE WHEN isnan({column}) THEN 'NaN' "
        f"WHEN isinf({column}) THEN {sign} || 'Inf' "
        f"WHEN NOT contains({written}, 'e') THEN regexp_replace({written}, '\\.0$', '') "
        f"WHEN {exponent} < 0 THEN {sign} || '0.' || repeat('0', -1 - {exponent}) || {digits} "
        f"ELSE {sign} || rpad({digits}, {exponent} + 1, '0') END"
    )
