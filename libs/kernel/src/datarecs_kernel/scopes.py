"""Groups of another pass to which rows are limited: of a scope, and those that were read again.

The keys of differing groups lie in files since a pass wrote them; rows are chosen by a join with
them alone, so that any number of groups may differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_kernel.database import sql_text
from datarecs_kernel.decoding import cell
from datarecs_kernel.encoding import encoded, encoded_tuple, payload_of
from datarecs_kernel.fingerprints import bucket_number
from datarecs_kernel.layout import Field

_PARTS = "part-*.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Groups of an earlier pass that rows have to be in, or must not be in."""

    fields: tuple[Field, ...]
    """The dimensions of those groups over this stage's sources; no other field has their names."""
    files: Sequence[str]
    """Parquet with one row per group, in the columns of a key: `k0`, `k0x`, `k1`."""
    bucket_key: bytes | None = None
    """The tenant's key, where the groups are buckets of these dimensions, of the role HASHED."""
    is_excluded: bool = False
    """Rows of all other groups are meant."""


def group_files(directory: Path) -> tuple[str, ...]:
    """The files that a pass left there."""
    return tuple(map(str, sorted(directory.glob(_PARTS))))


def limit_rows(rows: str, scope: Scope) -> str:
    """SQL of the rows whose key is that of a group, NULL and INVALID values included."""
    if not scope.files:
        return rows if scope.is_excluded else f"(FROM {rows} WHERE FALSE)"
    groups = f"read_parquet([{', '.join(map(sql_text, scope.files))}], hive_partitioning=false)"
    join = "ANTI" if scope.is_excluded else "SEMI"
    return f"(FROM {rows} r {join} JOIN {groups} g ON {_same_group(scope)})"


def _same_group(scope: Scope) -> str:
    if scope.bucket_key is not None:
        return f"{bucket_of(scope.fields, scope.bucket_key, 'r.')} = g.k0"
    labels = {f"k{label[1:]}": label for field in scope.fields for label, _ in field.columns}
    stored = pq.read_schema(scope.files[0]).names
    # Only one of both may have columns of INVALID values; where the other has some, nothing meets.
    tests = [
        f"r.{label} IS NOT DISTINCT FROM g.{name}" if name in stored else f"r.{label} IS NULL"
        for name, label in labels.items()
    ]
    tests += [f"g.{name} IS NULL" for name in stored if name not in labels]
    return " AND ".join(tests) or "TRUE"


def bucket_of(fields: Sequence[Field], key: bytes, prefix: str = "") -> str:
    """SQL of the number of the bucket of a row's key, from fields of the role HASHED."""
    return bucket_number(encoded_key(fields, prefix), key)


def encoded_key(fields: Sequence[Field], prefix: str = "") -> str:
    """SQL of the canonical encoding of a row's key, from fields of the role HASHED."""
    parts = [
        encoded(
            field.form,
            payload_of(field.form, f"{prefix}{field.name}"),
            f"{prefix}{field.payload}" if field.may_be_invalid else None,
        )
        for field in fields
    ]
    return encoded_tuple(parts)


def list_keys(
    directory: Path, fields: Sequence[Field], most: int
) -> list[tuple[str | None, ...]] | None:
    """The keys that a pass left there, as canonical text, at most so many.

    None for more of them, and where one has no canonical form.
    """
    files = group_files(directory)
    if sum(pq.read_metadata(file).num_rows for file in files) > most:
        return None
    keys = []
    for row in (row for file in files for row in pq.read_table(file).to_pylist()):
        values = [cell(each.form, row[each.name], row.get(each.payload)) for each in fields]
        if any(value.is_invalid for value in values):
            return None
        keys.append(tuple(map(canonical_text, values)))
    return keys
