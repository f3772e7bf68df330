"""Stored rows of differences, made a batch at a time: keys once per group, texts as columns.

The ids, hashes and digest of `core.comparison.differences` byte for byte, without an object per row
in between; a test holds both against each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.canonical import NULL, Tag, encode, encode_tuple, text
from datarecs_core.comparison.differences import BREAK_ID_LENGTH, masked
from datarecs_core.comparison.results import Outcome
from datarecs_spark.decoding import encoded_texts, encodings, texts
from datarecs_spark.findings import Finding
from datarecs_spark.layout import Layout
from datarecs_spark.stored import schema_of, typed_keys
from datarecs_spark.unequal import Found

_BLOCK = 64
"""Of SHA-256."""
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_WORTH = np.array([16, 8, 4, 2, 1], dtype=np.uint8)
"""Of the bits of a letter."""
_PADS = (0x36, 0x5C)
_KEY_HASH = 16
_NULL, _TEXT, _NUMBER = encode(NULL), bytes((Tag.TEXT,)), bytes((Tag.NUMBER,))
_NOTHING = encode_tuple(())
_ID_HEAD = encode_tuple([NULL] * 7)[:2] + encode(text("x" * BREAK_ID_LENGTH))[:-BREAK_ID_LENGTH]
"""What the digest says before a break id: seven values, the first of them a text so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    rows: pa.Table
    sizes: pa.Array
    """What orders them by size (`sort_keys`)."""
    digest: int
    """Sum of their hashes."""


class Writer:
    """Of one stage."""

    def __init__(self, layout: Layout, key: bytes) -> None:
        """The key is the tenant's."""
        stage = layout.stage
        self.layout, self.key, self.keyed = layout, key, keyed(key)
        self.schema = schema_of(layout)
        self._sources = pa.array(stage.sources, pa.string())
        self._names = [encode(text(source)) for source in stage.sources]
        self._heads: dict[tuple[object, ...], tuple[bytes, bytes]] = {}

    def keys(self, columns: pa.RecordBatch) -> "GroupKeys":
        """Of groups, from the layout's key columns."""
        return GroupKeys(self.layout, self.key, self.keyed, columns)

    def written(self, keys: "GroupKeys", found: Sequence[Found]) -> Written:
        """Rows for differences of these groups."""
        groups = [at for at, _ in found]
        findings = [each for _, each in found]
        heads = [self._head(each) for each in findings]
        encoded, kept = keys.encoded, keys.kept
        ids = _letters(
            [self.keyed(head + encoded[at]) for (head, _), at in zip(heads, groups, strict=True)]
        )
        told = (
            b"".join((_ID_HEAD, name, head, kept[at], self._said(each)))
            for at, (_, head), name, each in zip(groups, heads, ids, findings, strict=True)
        )
        return Written(
            rows=self._table(keys, groups, ids, findings),
            sizes=pa.array([each.size_key for each in findings], pa.string()),
            digest=sum(int.from_bytes(sha256(each).digest()) for each in told),
        )

    def _head(self, each: Finding) -> tuple[bytes, bytes]:
        """What stands before the group in a break id, and behind that id in the digest."""
        kind = (each.measure, each.presence, each.kind, each.within, each.odd)
        found = self._heads.get(kind)
        if found is None:
            stage = self.layout.stage
            measure = encode(text(stage.name)) + encode(text(each.measure))
            told = (_outcome(each), each.kind.value, str(each.presence))
            odd = _NULL if each.odd is None else self._names[each.odd]
            head = b"".join((measure, *(encode(text(part)) for part in told), odd))
            found = self._heads[kind] = (b"break" + stage.job_uid.bytes + measure, head)
        return found

    def _said(self, each: Finding) -> bytes:
        """What the digest says of values."""
        texts = self._encoded(each.values, _TEXT) + self._encoded(each.raw, _TEXT)
        return texts + self._encoded(each.deltas, _NUMBER)

    def _encoded(self, pairs: Sequence[tuple[int, str | None]], tag: bytes) -> bytes:
        """`encode_tuple` of names and texts, or numbers."""
        if not pairs:
            return _NOTHING
        parts = [(2 * len(pairs)).to_bytes(2)]
        for index, written in pairs:
            parts.append(self._names[index])
            if written is None:
                parts.append(_NULL)
            else:
                raw = written.encode()
                parts += (tag, len(raw).to_bytes(4), raw)
        return b"".join(parts)

    def _table(
        self,
        keys: "GroupKeys",
        groups: Sequence[int],
        ids: Sequence[bytes],
        findings: Sequence[Finding],
    ) -> pa.Table:
        at = pa.array(groups, pa.int64())
        odd = pa.array([each.odd for each in findings], pa.int64())
        columns = {
            "break_id": pa.array(ids, pa.binary()).cast(pa.string()),
            "stage": pa.repeat(self.layout.stage.name, len(findings)),
            "measure": [each.measure for each in findings],
            "outcome": [_outcome(each) for each in findings],
            "class": [each.kind.value for each in findings],
            "presence": [each.presence for each in findings],
            "odd_one_out": self._sources.take(odd),
            **{name: column.take(at) for name, column in keys.columns.items()},
            "values": self._map([each.values for each in findings]),
            "raw_values": self._map([each.raw for each in findings]),
            "deltas": self._map([each.deltas for each in findings]),
            "delta_percent": self._map([each.percents for each in findings]),
            "locator": self._map([()] * len(findings)),
            "sort_delta": [each.size for each in findings],
        }
        return pa.table(columns, schema=self.schema)

    def _map(self, rows: Sequence[Sequence[tuple[int, str | None]]]) -> pa.Array:
        """Texts by name of the source."""
        offsets = pa.array([0, *accumulate(map(len, rows))], pa.int32())
        flat = list(chain.from_iterable(rows))
        names = self._sources.take(pa.array([index for index, _ in flat], pa.int64()))
        items = pa.array([written for _, written in flat], pa.string())
        return pa.MapArray.from_arrays(offsets, names, items)


class GroupKeys:
    """Keys of groups in all forms that are stored."""

    def __init__(
        self, layout: Layout, key: bytes, keyed: Callable[[bytes], bytes], columns: pa.RecordBatch
    ) -> None:
        self.layout, self.keyed, self.plain = layout, keyed, columns
        dimensions = layout.stage.dimensions
        encoded, shown = [], []
        for field, dimension in zip(layout.keys, dimensions, strict=True):
            values = columns.column(field.name).to_pylist()
            payloads = None
            if field.may_be_invalid:
                payloads = columns.column(field.payload).to_pylist()
            written = texts(field.form, values, payloads)
            encoded.append(encodings(field.form, values, payloads, written))
            shown.append([masked(key, dimension.mask, each) for each in written])
        self.shown = _rows(shown, columns.num_rows)
        self.encoded = self._joined(encoded)
        """`encode_tuple`, before masks."""
        self.kept = self.encoded
        """The same as it is stored."""
        if any(each.mask is not None for each in dimensions):
            self.kept = self._joined([encoded_texts(Tag.TEXT, each) for each in shown])

    def _joined(self, encoded: Sequence[Sequence[bytes]]) -> list[bytes]:
        count = len(encoded).to_bytes(2)
        return [count + b"".join(each) for each in _rows(encoded, self.plain.num_rows)]

    def hash_of(self, group: int) -> bytes:
        """`differences.key_hash`."""
        return self.keyed(b"key" + self.encoded[group])[:_KEY_HASH]

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """By name of the stored column, one row per group."""
        text_column = pa.array(self.shown, pa.list_(pa.string()))
        hashes = [self.hash_of(group) for group in range(self.plain.num_rows)]
        found = {
            "key_text": text_column,
            "key_encoded": pa.array(self.kept, pa.binary()),
            "key_hash": pa.array(hashes, pa.binary()),
        }
        if self.layout.keys:
            found["key"] = typed_keys(self.layout, self.plain, text_column)
        return found


def _rows(columns: Sequence[Sequence[Any]], rows: int) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True)) or [()] * rows


def keyed(key: bytes) -> Callable[[bytes], bytes]:
    """HMAC-SHA-256 with the key's half of the work done once."""
    block = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    inner, outer = (sha256(bytes(each ^ pad for each in block)) for pad in _PADS)

    def digest(message: bytes) -> bytes:
        inside, outside = inner.copy(), outer.copy()
        inside.update(message)
        outside.update(inside.digest())
        return outside.digest()

    return digest


def _letters(digests: Sequence[bytes]) -> list[bytes]:
    """`differences.break_id` of these digests."""
    raw = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), -1)
    bits = np.unpackbits(raw, axis=1)[:, : BREAK_ID_LENGTH * len(_WORTH)]
    letters = _LETTERS[bits.reshape(-1, BREAK_ID_LENGTH, len(_WORTH)) @ _WORTH]
    told = letters.tobytes()
    return [told[at : at + BREAK_ID_LENGTH] for at in range(0, len(told), BREAK_ID_LENGTH)]


def _outcome(each: Finding) -> str:
    return (Outcome.WITHIN if each.within else Outcome.BREAK).value
