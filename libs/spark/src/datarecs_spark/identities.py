"""Break ids, key hashes and row hashes in SQL, equal byte for byte to those of core.

What `comparison.differences` decides for all engines, in Spark's functions; only rows that are
differences get any.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from datarecs_core.comparison.canonical import encode, text
from datarecs_core.comparison.plan import PRESENCE, ROWS
from datarecs_core.comparison.results import Outcome
from datarecs_core.jobs.vocabulary import DuplicatePolicy
from datarecs_spark.canonical import (
    base32,
    binary_literal,
    encoded,
    encoded_text,
    encoded_tuple,
    hmac_hex,
    invalid_text,
    lossless,
    masked,
    text_literal,
    text_of,
    tuple_head,
)
from datarecs_spark.elements import DIFFERENCE, PRESENCE_MEASURE, RESIDUE
from datarecs_spark.forms import NUMBER
from datarecs_spark.judging import kept_values
from datarecs_spark.layout import Field, Layout

STREAM = (
    "kind",
    "measure",
    "mask",
    "repeated",
    "differs",
    "common_odd",
    "at",
    "within",
    "own",
    "found_class",
    "odd_name",
    "size",
    "largest",
    "key_text",
    "key_encoded",
    "key_hash",
    "break_id",
    "row_hash",
    "shown",
    "befores",
    "changed",
    "deltas",
    "percents",
    "key_cells",
    "key_payloads",
    "cells",
    "payloads",
)
"""Columns that every judged row has on its way to the sink, besides keys, counts and totals."""


def identified(layout: Layout, rows: DataFrame, key: bytes) -> DataFrame:
    """Judged rows with all that is stored about them, in the columns that the sink takes."""
    names = _Identities(layout, key)
    rows = rows.selectExpr("*", *names.of_key())
    rows = rows.selectExpr("*", *names.of_group())
    rows = rows.selectExpr("*", *names.of_row())
    rows = rows.selectExpr("*", f"{names.row_hash()} AS row_hash")
    about_group = f"kind <> '{DIFFERENCE}'"
    return rows.selectExpr(
        *layout.key_names,
        *(f"n{index}" for index in layout.sources),
        *(f"IF({about_group}, {label}, NULL) AS {label}" for label in kept_values(layout)),
        *(f"{_COMBINED[label]} AS {label}" if label in _COMBINED else label for label in STREAM),
    )


_COMBINED = {"within": "NOT outside", "own": "own_all", "largest": "largest_all"}
"""Over all places of a group, where the element tells of one."""


class _Identities:
    def __init__(self, layout: Layout, key: bytes) -> None:
        self.layout, self.key, self.stage = layout, key, layout.stage

    def of_key(self) -> list[str]:
        """`group_encoded`, `key_text`, and the key's cells for the residue."""
        keys = self.layout.keys
        whole = encoded_tuple([_encoded(field) for field in keys])
        texts = [
            masked(self.key, plan.mask, _text(field))
            for plan, field in zip(self.stage.dimensions, keys, strict=True)
        ]
        cells = [lossless(field.form, field.name) for field in keys]
        payloads = [
            field.payload if field.may_be_invalid else "CAST(NULL AS BINARY)" for field in keys
        ]
        wanted = f"kind = '{DIFFERENCE}'"
        if self.stage.duplicates is DuplicatePolicy.ERROR:
            wanted = f"({wanted} OR repeated > 0)"
        return [
            f"CASE WHEN {wanted} THEN {whole} END AS group_encoded",
            f"CASE WHEN kind = '{DIFFERENCE}' THEN {_array(texts, 'STRING')} END AS key_text",
            f"CASE WHEN kind = '{RESIDUE}' THEN {_array(cells, 'STRING')} END AS key_cells",
            f"CASE WHEN kind = '{RESIDUE}' THEN {_array(payloads, 'BINARY')} END AS key_payloads",
        ]

    def of_group(self) -> list[str]:
        hashed = hmac_hex(self.key, f"concat({binary_literal(b'key')}, group_encoded)")
        is_masked = any(plan.mask is not None for plan in self.stage.dimensions)
        texts = [f"key_text[{at}]" for at in range(len(self.layout.keys))]
        told = (
            encoded_tuple([encoded_text(each) for each in texts])
            if is_masked
            else ("group_encoded")
        )
        return [
            f"substr(unhex({hashed}), 1, 16) AS key_hash",
            f"CASE WHEN kind = '{DIFFERENCE}' THEN {told} END AS key_encoded",
        ]

    def of_row(self) -> list[str]:
        names = [PRESENCE, *(each.plan.name for each in self.layout.measures), ROWS]
        labels = f"array({', '.join(text_literal(each) for each in names)})"
        parts = f"array({', '.join(binary_literal(encode(text(each))) for each in names)})"
        head = b"break" + self.stage.job_uid.bytes + encode(text(self.stage.name))
        at = f"measure + {1 - PRESENCE_MEASURE}"
        told = f"concat({binary_literal(head)}, element_at({parts}, {at}), group_encoded)"
        named = base32(hmac_hex(self.key, told))
        sources = ", ".join(text_literal(each) for each in self.stage.sources)
        return [
            f"CASE WHEN kind = '{DIFFERENCE}' THEN {named} END AS break_id",
            f"CASE WHEN kind = '{DIFFERENCE}' THEN element_at({labels}, {at}) END AS measure_name",
            # Spark 4.1 calls an element of literals never NULL, even where its number is.
            f"IF(odd IS NULL, NULL, element_at(array({sources}), odd + 1)) AS odd_name",
        ]

    def row_hash(self) -> str:
        """SHA-256 of what the digest says about a row."""
        outcome = f"IF(outside, '{Outcome.BREAK}', '{Outcome.WITHIN}')"
        head = [
            encoded_text("break_id"),
            binary_literal(encode(text(self.stage.name))),
            encoded_text("measure_name"),
            encoded_text(outcome),
            encoded_text("found_class"),
            encoded_text("CAST(mask AS STRING)"),
            encoded_text("odd_name"),
        ]
        shown, befores = "IF(size(shown) > 0, mask, 0L)", "coalesce(changed, 0L)"
        told = [
            encoded_tuple(head),
            "key_encoded",
            *self._pairs("shown", shown, encoded_text),
            *self._pairs("befores", befores, encoded_text),
            *self._pairs("deltas", self._delta_bits(), _encoded_number),
        ]
        return (
            f"CASE WHEN kind = '{DIFFERENCE}' THEN unhex(sha2(concat({', '.join(told)}), 256)) END"
        )

    def _delta_bits(self) -> str:
        bits = [
            f"IF(deltas[{index}] IS NOT NULL, {1 << index}L, 0L)" for index in self.layout.sources
        ]
        return f"coalesce({' + '.join(bits)}, 0L)"

    def _pairs(self, column: str, bits: str, written: Callable[[str], str]) -> list[str]:
        """A tuple of (source, value) for the sources whose bit is set."""
        found = [tuple_head(f"2 * bit_count({bits})")]
        for index, source in enumerate(self.stage.sources):
            label = binary_literal(encode(text(source)))
            pair = f"concat({label}, {written(f'{column}[{index}]')})"
            found.append(f"IF({bits} & {1 << index}L > 0, {pair}, X'')")
        return found


def _encoded_number(written: str) -> str:
    return encoded(NUMBER, written)


def _encoded(field: Field) -> str:
    return encoded(field.form, field.name, field.payload if field.may_be_invalid else None)


def _text(field: Field) -> str:
    written = text_of(field.form, field.name)
    if not field.may_be_invalid:
        return written
    told = invalid_text(field.payload)
    return f"CASE WHEN {field.payload} IS NOT NULL THEN {told} ELSE {written} END"


def _array(parts: Sequence[str], kind: str) -> str:
    return f"CAST(array({', '.join(parts)}) AS ARRAY<{kind}>)"
