"""Limit rows to groups of another pass: those of a scope, and those that are read again.

A pass writes the keys of groups that differ to files; rows are selected by a join with these files,
so any number of groups may differ.
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
    """Groups of an earlier pass that rows must be in, or must not be in."""

    fields: tuple[Field, ...]
    """The dimensions of those groups over this stage's sources; no other field has their names."""
    files: Sequence[str]
    """Parquet with one row per group, in the columns of a key: `k0`, `k0x`, `k1`."""
    bucket_key: bytes | None = None
    """The tenant's key, if the groups are buckets of these dimensions, with the role HASHED."""
    is_excluded: bool = False
    """Select the rows of all other groups."""


def group_files(directory: Path) -> tuple[str, ...]:
    """The files that a pass wrote there."""
    return tuple(map(str, sorted(directory.glob(_PARTS))))


def limit_rows(rows: str, scope: Scope) -> str:
    """SQL of the rows with the key of a group, with NULL and INVALID values."""
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
    # If only one of both has a column of INVALID values, its INVALID values match nothing.
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
    """The keys that a pass wrote there, as canonical text, up to a limit.

    None above the limit, and if a key has no canonical form.
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
