"""Stored rows of differences, made a batch at a time: keys once per group, texts as columns.

The ids, hashes and digest of `core.comparison.differences` byte for byte, without an object per
row; a test compares both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.results.differences import BREAK_ID_LENGTH
from datarecs_core.comparison.results.fingerprints import KEY_HASH_BYTES, KEY_MARK
from datarecs_core.comparison.results.results import Outcome
from datarecs_core.comparison.values.canonical import NULL, Tag, encode, encode_tuple, text
from datarecs_kernel.choosing import measure_names
from datarecs_kernel.columns import Values
from datarecs_kernel.decoding import encoded_payloads, encodings, fixed_width, texts
from datarecs_kernel.differing import KINDS, NOBODY
from datarecs_kernel.hashing import DIGEST_BYTES, Digests, Hasher
from datarecs_kernel.layout import Layout
from datarecs_kernel.stored import schema_of, typed_keys
from datarecs_kernel.unidentified import GROUP, SIZE, TEXTS

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_BYTES, _SHIFTS = np.divmod(np.arange(BREAK_ID_LENGTH) * 5, 8)
_SHIFTS = 11 - _SHIFTS
"""Start of the five bits of a letter, and their right shift in two bytes."""
_ID_HEAD = encode_tuple([NULL] * 7)[:2] + encode(text("x" * BREAK_ID_LENGTH))[:-BREAK_ID_LENGTH]
"""Prefix of the digest before a break id: seven values, the first a text of this length."""
_MAPS = ("values", "raw_values", "deltas", "delta_percent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    rows: pa.RecordBatch
    digest: int
    """Sum of the rows' hashes."""


class Writer:
    """Of one stage."""

    def __init__(self, layout: Layout, key: bytes, hasher: Hasher) -> None:
        """`key` is the tenant's key."""
        self.layout, self.stage, self.key, self.hasher = layout, layout.stage, key, hasher
        self.schema = schema_of(layout)
        self._sources = pa.array(self.stage.sources, pa.string())
        self._classes = pa.array([each.value for each in KINDS], pa.string())
        self._measures = measure_names(layout)

    def keys(self, columns: pa.RecordBatch) -> "GroupKeys":
        """Keys of groups, from the layout's key columns."""
        return GroupKeys(self.layout, self.key, columns, self.hasher)

    def written(self, keys: "GroupKeys", differences: pa.RecordBatch) -> Written:
        """Rows for differences of these groups, in the form of `unidentified`; at least one."""
        rows = self._rows(keys, differences)
        return Written(rows=rows, digest=self._digest(rows, self._heads(differences)))

    def _rows(self, keys: "GroupKeys", differences: pa.RecordBatch) -> pa.RecordBatch:
        count, groups = differences.num_rows, differences.column(GROUP)
        odd = differences.column("odd")
        outcomes = (Outcome.WITHIN.value, Outcome.BREAK.value)
        no_texts = pa.MapArray.from_arrays([0] * (count + 1), *[pa.array([], pa.string())] * 2)
        columns = {
            "break_id": self._ids(keys, differences),
            "stage": pa.repeat(self.stage.name, count),
            "measure": pa.array(self._measures, pa.string()).take(differences.column("measure")),
            "outcome": pc.if_else(differences.column("within"), *outcomes),
            "class": self._classes.take(differences.column("kind")),
            "presence": differences.column("presence"),
            "odd_one_out": self._sources.take(
                pc.if_else(pc.equal(odd, NOBODY), pa.scalar(None, odd.type), odd)
            ),
            **{name: column.take(groups) for name, column in keys.columns.items()},
            **{label: differences.column(label) for label in _MAPS},
            "locator": no_texts.cast(TEXTS),
            "sort_delta": differences.column(SIZE),
        }
        ordered = [columns[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(ordered, schema=self.schema)

    def _ids(self, keys: "GroupKeys", differences: pa.RecordBatch) -> pa.Array:
        """`differences.break_id` of each row."""
        start = b"break" + self.stage.job_uid.bytes
        heads = [start + _encoded_head(self.stage.name, each) for each in self._measures]
        messages = pc.binary_join_element_wise(
            pa.array(heads, pa.binary()).take(differences.column("measure")),
            keys.encoded.take(differences.column(GROUP)),
            b"",
        )
        return _letters(self.hasher.keyed(self.key, messages))

    def _heads(self, differences: pa.RecordBatch) -> pa.Array:
        """The digest's content between break ids and keys: few distinct texts."""
        labels = ("measure", "within", "kind", "presence", "odd")
        columns = [differences.column(label) for label in labels]
        alike = np.zeros(differences.num_rows, np.int64)
        for column in columns:
            values, number = np.unique(column.to_numpy(zero_copy_only=False), return_inverse=True)
            alike = alike * len(values) + number
        _, first, place = np.unique(alike, return_index=True, return_inverse=True)
        heads = []
        few = pa.RecordBatch.from_arrays(columns, labels).take(pa.array(first))
        for measure, within, kind, presence, odd in zip(*few.to_pydict().values(), strict=True):
            outcome = Outcome.WITHIN if within else Outcome.BREAK
            source = None if odd == NOBODY else self.stage.sources[odd]
            names = (self.stage.name, self._measures[measure], outcome.value, KINDS[kind].value)
            heads.append(_encoded_head(*names, str(presence), source))
        return pa.array(heads, pa.binary()).take(pa.array(place))

    def _digest(self, rows: pa.RecordBatch, heads: pa.Array) -> int:
        """The sum of the hashes of stored rows, with the content between ids and keys."""
        messages = pc.binary_join_element_wise(
            _ID_HEAD,
            rows.column("break_id").cast(pa.binary()),
            heads,
            rows.column("key_encoded"),
            _said(rows.column("values"), Tag.TEXT),
            _said(rows.column("raw_values"), Tag.TEXT),
            _said(rows.column("deltas"), Tag.NUMBER),
            b"",
        )
        hashes = self.hasher.digests(messages)
        # Added four bytes at a time: this number of 32-bit sums fits in 64 bits.
        words = np.ascontiguousarray(hashes).view(">u4").reshape(-1, DIGEST_BYTES // 4)
        parts = words.sum(axis=0, dtype=np.uint64)
        return sum(int(part) << 32 * at for at, part in enumerate(parts[::-1]))


def _said(maps: pa.MapArray, tag: Tag) -> pa.Array:
    """`encode_tuple` of names and texts, or numbers, of each row."""
    if not len(maps.items):
        return pa.repeat(encode_tuple([]), len(maps))
    names = maps.keys.dictionary_encode()
    encoded = encoded_payloads(Tag.TEXT, names.dictionary).take(names.indices)
    pairs = pc.binary_join_element_wise(encoded, encoded_payloads(tag, maps.items), b"")
    sizes = 2 * np.diff(maps.offsets.to_numpy())
    joined = pc.binary_join(
        pa.ListArray.from_arrays(maps.offsets, pairs), pa.scalar(b"", pa.binary())
    )
    return pc.binary_join_element_wise(fixed_width(sizes.astype(">u2")), joined, b"")


def _encoded_head(*parts: str | None) -> bytes:
    return b"".join(encode(NULL if each is None else text(each)) for each in parts)


class GroupKeys:
    """Keys of groups in all stored forms."""

    def __init__(self, layout: Layout, key: bytes, columns: pa.RecordBatch, hasher: Hasher) -> None:
        self.layout, self.key, self.plain, self.hasher = layout, key, columns, hasher
        dimensions = layout.stage.dimensions
        encoded, self.shown = [], []
        for field, dimension in zip(layout.keys, dimensions, strict=True):
            payloads = columns.column(field.payload) if field.may_be_invalid else None
            values = Values(columns.column(field.name), payloads)
            written = texts(field.form, values)
            encoded.append(encodings(field.form, values, written))
            self.shown.append(hasher.masked(key, dimension.mask, written))
        self.encoded = self._joined(encoded)
        """`encode_tuple` of the keys, before masks."""
        self.stored = self.encoded
        """`encode_tuple` of the keys, as stored."""
        if any(each.mask is not None for each in dimensions):
            self.stored = self._joined([encoded_payloads(Tag.TEXT, each) for each in self.shown])

    def _joined(self, encoded: Sequence[pa.Array]) -> pa.Array:
        counts = pa.repeat(len(encoded).to_bytes(2), self.plain.num_rows)
        return pc.binary_join_element_wise(counts, *encoded, b"")

    @cached_property
    def hashes(self) -> pa.Array:
        """`fingerprints.key_hash`."""
        messages = pc.binary_join_element_wise(self.key + KEY_MARK, self.encoded, b"")
        return fixed_width(self.hasher.digests(messages)[:, :KEY_HASH_BYTES])

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """Key columns by stored name, one row per group."""
        rows, parts = self.plain.num_rows, len(self.shown)
        every = pa.chunked_array(self.shown, pa.string()).combine_chunks()
        by_row = np.arange(parts * rows).reshape(parts, rows).T.ravel()
        offsets = pa.array(np.arange(rows + 1) * parts, pa.int32())
        key_texts = pa.ListArray.from_arrays(offsets, every.take(pa.array(by_row)))
        columns = {"key_text": key_texts, "key_encoded": self.stored, "key_hash": self.hashes}
        if self.layout.keys:
            columns["key"] = typed_keys(self.layout, self.plain, key_texts)
        return columns


def _letters(digests: Digests) -> pa.Array:
    """`differences.break_id` of these digests."""
    pairs = digests[:, _BYTES].astype(np.uint16) << 8 | digests[:, _BYTES + 1]
    return fixed_width(_LETTERS[pairs >> _SHIFTS & 31]).view(pa.string())
