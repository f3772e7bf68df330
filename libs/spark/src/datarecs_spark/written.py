"""Stored rows of differences, made a batch at a time: keys once per group, texts as columns.

The ids, hashes and digest of `core.comparison.differences` byte for byte, without an object per row
in between; a test holds both against each other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.canonical import NULL, Tag, encode, encode_tuple, text
from datarecs_core.comparison.differences import BREAK_ID_LENGTH, masked
from datarecs_core.comparison.results import Outcome
from datarecs_spark.decoding import encoded_texts, encodings, texts
from datarecs_spark.keyless import KeylessDifference
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
_ID_HEAD = encode_tuple([NULL] * 7)[:2] + encode(text("x" * BREAK_ID_LENGTH))[:-BREAK_ID_LENGTH]
"""What the digest says before a break id: seven values, the first of them a text so long."""

Names = Mapping[Any, bytes] | Sequence[bytes]
"""Encoded names of sources, by what stands for them."""
_Pairs = Sequence[tuple[Any, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    rows: pa.Table
    sizes: pa.Array
    """What orders them by size (`sort_keys`)."""
    digest: int
    """Sum of their hashes."""


class _Kind(NamedTuple):
    """What differences of one measure, class and presence have in common."""

    of_id: bytes
    """Before the group, in break ids."""
    of_digest: bytes
    """Between break id and group, in the digest."""
    outcome: str
    difference_class: str


class Writer:
    """Of one stage."""

    def __init__(self, layout: Layout, key: bytes) -> None:
        """The key is the tenant's."""
        stage = layout.stage
        self.layout, self.key, self.keyed = layout, key, keyed(key)
        self.schema = schema_of(layout)
        self._sources = pa.array(stage.sources, pa.string())
        self._names = [encode(text(source)) for source in stage.sources]
        self._kinds: dict[tuple[object, ...], _Kind] = {}

    def keys(self, columns: pa.RecordBatch) -> "GroupKeys":
        """Of groups, from the layout's key columns."""
        return GroupKeys(self.layout, self.key, self.keyed, columns)

    def written(self, keys: "GroupKeys", found: Sequence[Found]) -> Written:
        """Rows for differences of these groups."""
        groups = [at for at, _ in found]
        differences = [each for _, each in found]
        kinds = [self._kind(each) for each in differences]
        encoded, kept = keys.encoded, keys.kept
        ids = _letters(
            [self.keyed(kind.of_id + encoded[at]) for kind, at in zip(kinds, groups, strict=True)]
        )
        told = zip(groups, kinds, ids, self._said(differences), strict=True)
        hashes = (_hashed(name, kind.of_digest, kept[at], said) for at, kind, name, said in told)
        return Written(
            rows=self._table(keys.columns, pa.array(groups, pa.int64()), kinds, ids, differences),
            sizes=pa.array([each.size_key for each in differences], pa.string()),
            digest=sum(hashes),
        )

    def _kind(self, each: KeylessDifference) -> "_Kind":
        about = (each.measure, each.presence, each.kind, each.within, each.odd)
        found = self._kinds.get(about)
        if found is None:
            stage = self.layout.stage
            outcome = (Outcome.WITHIN if each.within else Outcome.BREAK).value
            odd = None if each.odd is None else stage.sources[each.odd]
            told = (each.measure, outcome, each.kind.value, each.presence, odd)
            named, *others = map(_encoded_head, (stage.name, *told))
            found = self._kinds[about] = _Kind(
                of_id=b"break" + stage.job_uid.bytes + named + others[0],
                of_digest=b"".join((named, *others)),
                outcome=outcome,
                difference_class=each.kind.value,
            )
        return found

    def _said(self, differences: Iterable[KeylessDifference]) -> Iterator[bytes]:
        """What the digest says of values; differences that groups share come one after another."""
        last, said = None, b""
        for each in differences:
            if each is not last:
                last = each
                said = _said(self._names, each.values, each.raw, each.deltas)
            yield said

    def _table(
        self,
        keys: Mapping[str, pa.Array],
        groups: pa.Array,
        kinds: Sequence["_Kind"],
        ids: Sequence[bytes],
        differences: Sequence[KeylessDifference],
    ) -> pa.Table:
        odd = pa.array([each.odd for each in differences], pa.int64())
        columns = {
            "break_id": pa.array(ids, pa.binary()).cast(pa.string()),
            "stage": pa.repeat(self.layout.stage.name, len(differences)),
            "measure": [each.measure for each in differences],
            "outcome": [each.outcome for each in kinds],
            "class": [each.difference_class for each in kinds],
            "presence": [each.presence for each in differences],
            "odd_one_out": self._sources.take(odd),
            **{name: column.take(groups) for name, column in keys.items()},
            "values": self._map([each.values for each in differences]),
            "raw_values": self._map([each.raw for each in differences]),
            "deltas": self._map([each.deltas for each in differences]),
            "delta_percent": self._map([each.percents for each in differences]),
            "locator": self._map([()] * len(differences)),
            "sort_delta": [each.size for each in differences],
        }
        return pa.table(columns, schema=self.schema)

    def _map(self, rows: Sequence[Sequence[tuple[int, str | None]]]) -> pa.Array:
        """Texts by name of the source."""
        offsets = pa.array([0, *accumulate(map(len, rows))], pa.int32())
        flat = list(chain.from_iterable(rows))
        names = self._sources.take(pa.array([index for index, _ in flat], pa.int64()))
        items = pa.array([written for _, written in flat], pa.string())
        return pa.MapArray.from_arrays(offsets, names, items)


def digest_of(rows: pa.Table) -> int:
    """The sum of the hashes of stored rows, as they were added up when they were written."""
    labels = ("stage", "measure", "outcome", "class", "presence", "odd_one_out")
    heads = list(zip(*(rows.column(label).to_pylist() for label in labels), strict=True))
    known = {head: b"".join(map(_encoded_head, head)) for head in set(heads)}
    pairs = [rows.column(label).to_pylist() for label in ("values", "raw_values", "deltas")]
    names = {name: encode(text(name)) for each in chain(*pairs) for name, _ in each}
    ids = (name.encode() for name in rows.column("break_id").to_pylist())
    told = zip(ids, heads, rows.column("key_encoded").to_pylist(), *pairs, strict=True)
    return sum(
        _hashed(name, known[head], kept, _said(names, *said)) for name, head, kept, *said in told
    )


def _encoded_head(part: str | int | None) -> bytes:
    return _NULL if part is None else encode(text(str(part)))


def _hashed(name: bytes, head: bytes, kept: bytes, said: bytes) -> int:
    return int.from_bytes(sha256(b"".join((_ID_HEAD, name, head, kept, said))).digest())


def _said(names: Names, values: _Pairs, raw: _Pairs, deltas: _Pairs) -> bytes:
    """What the digest says of values."""
    return b"".join(
        (*_parts(names, values, _TEXT), *_parts(names, raw, _TEXT), *_parts(names, deltas, _NUMBER))
    )


def _parts(names: Names, pairs: _Pairs, tag: bytes) -> Iterator[bytes]:
    """`encode_tuple` of names and texts, or numbers."""
    yield (2 * len(pairs)).to_bytes(2)
    for key, written in pairs:
        yield names[key]
        if written is None:
            yield _NULL
        else:
            raw = written.encode()
            yield tag
            yield len(raw).to_bytes(4)
            yield raw


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
