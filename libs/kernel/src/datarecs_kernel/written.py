"""Stored rows of differences, made a batch at a time: keys once per group, texts as columns.

The ids, hashes and digest of `core.comparison.differences` byte for byte, without an object per row
in between but the bytes that are hashed; a test holds both against each other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datarecs_core.comparison.results.differences import BREAK_ID_LENGTH, masked
from datarecs_core.comparison.results.fingerprints import KEY_HASH_BYTES, KEY_MARK
from datarecs_core.comparison.results.results import Outcome
from datarecs_core.comparison.values.canonical import NULL, Tag, encode, encode_tuple, text
from datarecs_kernel.columns import Values
from datarecs_kernel.decoding import encoded_payloads, encodings, fixed_width, texts
from datarecs_kernel.differing import KINDS, NOBODY, By, Differences
from datarecs_kernel.layout import Layout
from datarecs_kernel.stored import schema_of, typed_keys

_BLOCK = 64
"""Of SHA-256."""
_DIGEST = 32
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_BYTES, _SHIFTS = np.divmod(np.arange(BREAK_ID_LENGTH) * 5, 8)
_SHIFTS = 11 - _SHIFTS
"""Where the five bits of a letter begin, and how far right they move as bits of two bytes."""
_PADS = (0x36, 0x5C)
_ID_HEAD = encode_tuple([NULL] * 7)[:2] + encode(text("x" * BREAK_ID_LENGTH))[:-BREAK_ID_LENGTH]
"""What the digest says before a break id: seven values, the first of them a text so long."""
_NO_BYTES = pa.scalar(b"", pa.binary())

Digests = NDArray[np.uint8]
"""A line of 32 bytes each."""
Keyed = Callable[[bytes, Iterable[bytes]], Digests]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    rows: pa.Table
    sizes: pa.ChunkedArray
    """What orders them by size (`sort_keys`)."""
    digest: int
    """Sum of their hashes."""


class Writer:
    """Of one stage."""

    def __init__(self, layout: Layout, key: bytes) -> None:
        """The key is the tenant's."""
        self.layout, self.stage, self.key, self.keyed = layout, layout.stage, key, keyed(key)
        self.schema = schema_of(layout)
        self._sources = pa.array(self.stage.sources, pa.string())
        self._classes = pa.array([each.value for each in KINDS], pa.string())

    def keys(self, columns: pa.RecordBatch) -> "GroupKeys":
        """Of groups, from the layout's key columns."""
        return GroupKeys(self.layout, self.key, columns)

    def written(self, keys: "GroupKeys", found: Sequence[Differences]) -> Written:
        """Rows for differences of these groups; there are some."""
        rows = [self._rows(keys, each) for each in found]
        heads = [self._heads(each) for each in found]
        sizes = [each.size_keys(np.arange(len(each))) for each in found]
        digests = (_digest(one, head) for one, head in zip(rows, heads, strict=True))
        return Written(
            rows=pa.Table.from_batches(rows),
            sizes=pa.chunked_array(sizes),
            digest=sum(digests),
        )

    def _heads(self, each: Differences) -> pa.Array:
        """What the digest says between break ids and keys: few texts, of rows that are alike."""
        sources, stage = self.stage.sources, self.stage.name
        alike = (each.presence * len(KINDS) + each.kinds) * (len(sources) + 1) + each.odd
        _, first, place = np.unique(alike * 2 + each.within, return_index=True, return_inverse=True)
        heads = []
        for at in first:
            outcome = Outcome.WITHIN if each.within[at] else Outcome.BREAK
            odd = None if each.odd[at] == NOBODY else sources[each.odd[at]]
            told = (stage, each.measure, outcome.value, KINDS[each.kinds[at]].value)
            heads.append(_encoded_head(*told, str(each.presence[at]), odd))
        return pa.array(heads, pa.binary()).take(pa.array(place))

    def _rows(self, keys: "GroupKeys", each: Differences) -> pa.RecordBatch:
        rows, groups = len(each), pa.array(each.groups)
        texts = each.written(np.arange(rows))
        head = b"break" + self.stage.job_uid.bytes + _encoded_head(self.stage.name, each.measure)
        odd = pa.array(each.odd, mask=each.odd == NOBODY)
        outcomes = (Outcome.WITHIN.value, Outcome.BREAK.value)
        columns = {
            "break_id": _letters(self.keyed(head, keys.encoded.take(groups).to_pylist())),
            "stage": pa.repeat(self.stage.name, rows),
            "measure": pa.repeat(each.measure, rows),
            "outcome": pc.if_else(pa.array(each.within), *outcomes),
            "class": self._classes.take(pa.array(each.kinds)),
            "presence": pa.array(each.presence),
            "odd_one_out": self._sources.take(odd),
            **{name: column.take(groups) for name, column in keys.columns.items()},
            "values": self._map(texts.values, rows),
            "raw_values": self._map(texts.raw, rows),
            "deltas": self._map(texts.deltas, rows),
            "delta_percent": self._map(texts.percents, rows),
            "locator": self._map((), rows),
            "sort_delta": each.sizes,
        }
        ordered = [columns[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(ordered, schema=self.schema)

    def _map(self, given: By, rows: int) -> pa.MapArray:
        """Texts by name of the source."""
        held = np.zeros((rows, len(given)), np.bool_)
        for at, each in enumerate(given):
            held[:, at] = each.where
        row, column = np.nonzero(held)
        offsets = np.insert(np.cumsum(held.sum(axis=1), dtype=np.int32), 0, 0)
        names = self._sources.take(
            pa.array(np.array([each.source for each in given], np.int64)[column])
        )
        texts = pa.chunked_array([each.texts for each in given], pa.string())
        items = texts.combine_chunks().take(pa.array(column * rows + row))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, items)


def digest_of(rows: pa.Table) -> int:
    """The sum of the hashes of stored rows, as they were added up when they were written."""
    labels = ("stage", "measure", "outcome", "class", "presence", "odd_one_out")
    total = 0
    for batch in rows.to_batches():
        told = zip(*(batch.column(label).to_pylist() for label in labels), strict=True)
        heads = [_encoded_head(*named, str(presence), odd) for *named, presence, odd in told]
        total += _digest(batch, pa.array(heads, pa.binary()))
    return total


def _digest(rows: pa.RecordBatch, heads: pa.Array) -> int:
    """The sum of the hashes of stored rows, with what is said between ids and keys."""
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
    hashes = b"".join([sha256(each).digest() for each in messages.to_pylist()])
    # Added up four bytes at a time: so many sums of 32 bits do not outgrow 64.
    parts = np.frombuffer(hashes, ">u4").reshape(-1, _DIGEST // 4).sum(axis=0, dtype=np.uint64)
    return sum(int(part) << 32 * at for at, part in enumerate(parts[::-1]))


def _said(maps: pa.MapArray, tag: Tag) -> pa.Array:
    """`encode_tuple` of names and texts, or numbers, of each row."""
    if not len(maps.items):
        return pa.repeat(encode_tuple([]), len(maps))
    names = maps.keys.dictionary_encode()
    encoded = encoded_payloads(Tag.TEXT, names.dictionary).take(names.indices)
    pairs = pc.binary_join_element_wise(encoded, encoded_payloads(tag, maps.items), b"")
    sizes = 2 * np.diff(maps.offsets.to_numpy())
    joined = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), _NO_BYTES)
    return pc.binary_join_element_wise(fixed_width(sizes.astype(">u2")), joined, b"")


def _encoded_head(*parts: str | None) -> bytes:
    return b"".join(encode(NULL if each is None else text(each)) for each in parts)


class GroupKeys:
    """Keys of groups in all forms that are stored."""

    def __init__(self, layout: Layout, key: bytes, columns: pa.RecordBatch) -> None:
        self.layout, self.key, self.plain = layout, key, columns
        dimensions = layout.stage.dimensions
        encoded, self.shown = [], []
        for field, dimension in zip(layout.keys, dimensions, strict=True):
            payloads = columns.column(field.payload) if field.may_be_invalid else None
            values = Values(columns.column(field.name), payloads)
            written = texts(field.form, values)
            encoded.append(encodings(field.form, values, written))
            if dimension.mask is not None:
                told = [masked(key, dimension.mask, each) for each in written.to_pylist()]
                written = pa.array(told, pa.string())
            self.shown.append(written)
        self.encoded = self._joined(encoded)
        """`encode_tuple`, before masks."""
        self.kept = self.encoded
        """The same as it is stored."""
        if any(each.mask is not None for each in dimensions):
            self.kept = self._joined([encoded_payloads(Tag.TEXT, each) for each in self.shown])

    def _joined(self, encoded: Sequence[pa.Array]) -> pa.Array:
        counts = pa.repeat(len(encoded).to_bytes(2), self.plain.num_rows)
        return pc.binary_join_element_wise(counts, *encoded, b"")

    @cached_property
    def hashes(self) -> pa.Array:
        """`fingerprints.key_hash`."""
        head = self.key + KEY_MARK
        hashes = b"".join([sha256(head + each).digest() for each in self.encoded.to_pylist()])
        return fixed_width(_lines(hashes)[:, :KEY_HASH_BYTES])

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """By name of the stored column, one row per group."""
        rows, parts = self.plain.num_rows, len(self.shown)
        every = pa.chunked_array(self.shown, pa.string()).combine_chunks()
        by_row = np.arange(parts * rows).reshape(parts, rows).T.ravel()
        offsets = pa.array(np.arange(rows + 1) * parts, pa.int32())
        key_texts = pa.ListArray.from_arrays(offsets, every.take(pa.array(by_row)))
        found = {"key_text": key_texts, "key_encoded": self.kept, "key_hash": self.hashes}
        if self.layout.keys:
            found["key"] = typed_keys(self.layout, self.plain, key_texts)
        return found


def keyed(key: bytes) -> Keyed:
    """HMAC-SHA-256 of messages that begin alike, with the key's half of the work done once."""
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    inner, outer = (sha256(bytes(each ^ pad for each in block)) for pad in _PADS)

    def digests(head: bytes, messages: Iterable[bytes]) -> Digests:
        begun, found = inner.copy(), []
        begun.update(head)
        for message in messages:
            inside, outside = begun.copy(), outer.copy()
            inside.update(message)
            outside.update(inside.digest())
            found.append(outside.digest())
        return _lines(b"".join(found))

    return digests


def _lines(digests: bytes) -> Digests:
    return np.frombuffer(digests, np.uint8).reshape(-1, _DIGEST)


def _letters(digests: Digests) -> pa.Array:
    """`differences.break_id` of these digests."""
    pairs = digests[:, _BYTES].astype(np.uint16) << 8 | digests[:, _BYTES + 1]
    return fixed_width(_LETTERS[pairs >> _SHIFTS & 31]).view(pa.string())
