"""Limits of values and keys in DuckDB's SQL: the rules of `core.comparison.values.sizes`.

Reading a value above its limit raises an error that names the limit and does not contain the value.
The size of a value is that in its source, the size of a key is that after rules.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from datarecs_core.comparison.planning.faults import KeyTooLargeError, ValueTooLargeError
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.values.canonical import encode, text
from datarecs_core.errors.base import DatarecsError
from datarecs_kernel.base_columns import BaseColumn
from datarecs_kernel.forms import FormKind
from datarecs_kernel.layout import Field, Layout

_LARGE_FORMS = frozenset({FormKind.TEXT, FormKind.JSON})
_KEY = "key"
_REPORTED = re.compile(r"datarecs:too-large:(\d+):(key|[0-9a-f]*)")


def limited_base(base: BaseColumn, scan: Scan, column: str) -> BaseColumn:
    """A text or binary column that raises an error for values above the limit."""
    name = column.encode().hex()
    size = "strlen" if base.form.kind is FormKind.TEXT else "octet_length"
    value = _limited(base.value, f"{size}({base.value})", scan, name)
    if base.raw is None:
        return replace(base, value=value)
    return replace(
        base, value=value, raw=_limited(base.raw, f"octet_length({base.raw})", scan, name)
    )


def _limited(value: str, size: str, scan: Scan, name: str) -> str:
    limit = scan.limits.max_value_bytes
    return f"CASE WHEN {size} > {limit} THEN {_error(scan, name)} ELSE {value} END"


def limited_key(layout: Layout, scan: Scan, columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of a relation; the first key column raises an error if the key is too large.

    Args:
        layout: of the rows.
        scan: of the source.
        columns: SQL by name.
    """
    checked = dict(columns)
    sizes = [size for field in layout.keys for size in _sizes(field, scan, columns)]
    if sizes:
        first = layout.keys[0].name
        large = f"{' + '.join(sizes)} > {scan.limits.max_key_bytes}"
        checked[first] = f"CASE WHEN {large} THEN {_error(scan, _KEY)} ELSE {columns[first]} END"
    return checked


def _sizes(field: Field, scan: Scan, columns: Mapping[str, str]) -> Iterator[str]:
    value = columns[field.name]
    if field.form.kind in _LARGE_FORMS:
        yield f"coalesce(strlen({value}), 0)"
    if field.form.kind is FormKind.BINARY:
        yield f"coalesce(octet_length({value}), 0)"
    if field.may_be_invalid:
        before = len(encode(text(scan.source)))
        yield f"coalesce(octet_length({columns[field.payload]}) - {before}, 0)"


def _error(scan: Scan, what: str) -> str:
    return f"error('datarecs:too-large:{scan.index}:{what}')"


def too_large(failure: BaseException, layout: Layout) -> DatarecsError | None:
    """The limit that caused a failure of DuckDB; None for another cause."""
    reported = _REPORTED.search(str(failure))
    if reported is None:
        return None
    scan = layout.stage.scans[int(reported[1])]
    if reported[2] == _KEY:
        return KeyTooLargeError(source=scan.source, limit=scan.limits.max_key_bytes)
    column, limit = bytes.fromhex(reported[2]).decode(), scan.limits.max_value_bytes
    return ValueTooLargeError(source=scan.source, column=column, limit=limit)
