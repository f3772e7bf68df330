"""SQL of the hashes of a first reading, with a seed per run in every value.

Separate from the reading because this module ensures the quality of the hash: DuckDB's `hash` has
no seed, and its last argument is only combined by XOR.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.database import sql_text
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.group_table import is_nan
from datarecs_kernel.hash_sums import HASH_BITS, weights_for
from datarecs_kernel.layout import Field, Layout, compared_fields, compared_measures
from datarecs_kernel.repeated_keys import key_hash

_SALT_BITS = 63
_BLOCK_BYTES = 8
"""Bytes of a text that DuckDB's hash processes at a time."""
_WIDE_DIGITS = 18
"""Digits above which DuckDB combines the hashes of two halves of a decimal by XOR."""
_TEXTS = frozenset({FormKind.TEXT, FormKind.JSON, FormKind.NUMBER})
_BYTES = frozenset({FormKind.BINARY, FormKind.UUID})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowHashes:
    """The seeds of one stage."""

    salt: int
    prefix: str
    """Of every text."""
    weights: tuple[int, ...]
    """Per source (`weights_for`)."""

    def columns(self, layout: Layout, source: int) -> tuple[str, str]:
        """Hashes of the key, and of key and compared values; equal rows have equal hashes."""
        fields = (*layout.keys, *compared_fields(layout))
        values = [sql for each in fields for sql in self._seeded(each)]
        return key_hash(layout.key_names), self._hash([*values, *_unequal_values(layout, source)])

    def _seeded(self, field: Field) -> list[str]:
        salt = sql_text(self.prefix)
        form = field.form
        if form.kind in _TEXTS:
            value = f"{salt} || {field.name}"
        elif form.kind in _BYTES:
            value = f"{salt}::BLOB || {field.name}"
        elif form.precision > _WIDE_DIGITS:
            value = f"{salt} || {field.name}::VARCHAR"
        else:
            value = field.name
        payload = [f"{salt}::BLOB || {field.payload}"] if field.may_be_invalid else []
        return [value, *payload]

    def _hash(self, values: Sequence[str]) -> str:
        """Without the outer hash the last value is only XORed, and swapped values cancel."""
        return f"hash(hash({self.salt}::UBIGINT, {', '.join(values)}))"


def drawn_hashes(sources: int) -> RowHashes:
    """New seeds."""
    # The offset of a text inside a block is part of the seed.
    letters = _BLOCK_BYTES + secrets.randbelow(_BLOCK_BYTES)
    return RowHashes(
        salt=secrets.randbits(_SALT_BITS),
        prefix=secrets.token_hex(letters)[:letters],
        weights=weights_for(sources, [secrets.randbits(HASH_BITS) for _ in range(sources)]),
    )


def _unequal_values(layout: Layout, source: int) -> list[str]:
    """A value that differs per source if a row has a NaN that equals nothing."""
    unequal = [
        is_nan(field.form, field.name)
        for measure, field in compared_measures(layout)
        if measure.plan.rules.nan is NanRule.UNEQUAL and _may_be_nan(field.form)
    ]
    return [f"CASE WHEN {' OR '.join(unequal)} THEN {source + 1} ELSE 0 END"] if unequal else []


def _may_be_nan(form: Form) -> bool:
    return form.kind in {FormKind.DOUBLE, FormKind.NUMBER}
