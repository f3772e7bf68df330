"""Encodings c1 of nested columns, computed by column: every distinct plain value is encoded once.

The bytes of `canonical.encode`, without a Python object per value of a list. Columns with values
without a canonical form, or with more members than an encoding allows, are encoded value by value;
a test compares both ways.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from numpy.typing import NDArray

from datarecs_connectors.arrow_types import is_json, is_uuid, plain_column
from datarecs_core.comparison.values.canonical import NULL, Tag, encode
from datarecs_core.comparison.values.translating import MAX_MEMBERS, translation
from datarecs_core.jobs.types import CanonicalType, TypeKind

_TAGS = {TypeKind.ARRAY: Tag.ARRAY, TypeKind.STRUCT: Tag.STRUCT, TypeKind.MAP: Tag.MAP}
_PAIR = (2).to_bytes(2)
Numbers = NDArray[np.int64]


class NotByColumnError(ValueError):
    """A value of the column has no canonical form, or repeats a key of a map."""


def payloads_of(column: pa.Array, kind: CanonicalType) -> pa.Array:
    """Payloads of the encodings of a nested column, NULL of NULL.

    Raises NotByColumnError.
    """
    members = dict(kind.members)
    match kind.kind:
        case TypeKind.ARRAY:
            begins, ends = _edges(column)
            elements = _encodings(column.values, members["element"])
            made = _joined(elements, begins, ends)
        case TypeKind.STRUCT:
            places = {each.name: at for at, each in enumerate(column.type)}
            parts = [
                _encodings(column.field(places[name]), members[name]) for name in sorted(members)
            ]
            made = pc.binary_join_element_wise(len(parts).to_bytes(2), *parts, b"")
        case _:
            made = _maps(column, members)
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.binary()))


def _encodings(column: pa.Array, kind: CanonicalType) -> pa.Array:
    """Full encodings, also of NULL."""
    if pat.is_null(column.type):
        return pa.repeat(encode(NULL), len(column))
    if not kind.members:
        return pc.fill_null(_plain_encodings(column, kind), encode(NULL))
    payloads = payloads_of(column, kind)
    sizes = pc.fill_null(pc.binary_length(payloads), 0).to_numpy()
    head = bytes((_TAGS[kind.kind],))
    made = pc.binary_join_element_wise(head, _fixed(sizes.astype(">u4")), payloads, b"")
    return pc.fill_null(made, encode(NULL))


def _plain_encodings(column: pa.Array, kind: CanonicalType) -> pa.Array:
    """Encodings of distinct values; NULL of NULL."""
    is_extension = is_uuid(column.type) or is_json(column.type)
    stored = column.storage if is_extension else column
    if pat.is_floating(stored.type):
        # 0.0 and -0.0 are one value, and NaN must not become NULL.
        stored = stored.cast(pa.float64())
    distinct = stored if pat.is_dictionary(stored.type) else stored.dictionary_encode()
    values = distinct.dictionary
    if is_extension:
        values = pa.ExtensionArray.from_storage(column.type, values)
    translate = translation(kind, "")
    translated = [translate(value) for value in plain_column(values)]
    if any(value.is_invalid for value in translated):
        raise NotByColumnError
    return pa.array(map(encode, translated), pa.binary()).take(distinct.indices)


def _maps(column: pa.Array, members: dict[str, CanonicalType]) -> pa.Array:
    """Pairs sorted by the encoding of their keys."""
    begins, ends = _edges(column)
    keys = _encodings(column.keys, members["key"])
    items = _encodings(column.items, members["value"])
    rows = np.repeat(np.arange(len(column)), ends - begins)
    places = _places(begins, ends)
    pairs = pa.table({"row": rows, "key": keys.take(pa.array(places))})
    order = pc.sort_indices(pairs, [("row", "ascending"), ("key", "ascending")])
    sorted_keys = pairs.column("key").take(order).combine_chunks()
    if len(rows) > 1:
        is_same = pc.equal(sorted_keys[1:], sorted_keys[:-1]).to_numpy(zero_copy_only=False)
        if np.any(is_same & (rows[1:] == rows[:-1])):
            raise NotByColumnError
    sorted_items = items.take(pa.array(places)).take(order)
    tuples = pc.binary_join_element_wise(_PAIR, sorted_keys, sorted_items, b"")
    lengths = np.cumsum(ends - begins)
    return _joined(tuples, lengths - (ends - begins), lengths)


def _places(begins: Numbers, ends: Numbers) -> Numbers:
    """Encodings of all members, row by row."""
    sizes = ends - begins
    starts = np.repeat(begins - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return np.asarray(starts + np.arange(int(sizes.sum())), np.int64)


def _joined(encodings: pa.Array, begins: Numbers, ends: Numbers) -> pa.Array:
    """The count of members and their encodings, per row."""
    sizes = ends - begins
    if len(sizes) and sizes.max() > MAX_MEMBERS:
        raise NotByColumnError
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    members = encodings.take(pa.array(_places(begins, ends)))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), members)
    joined = pc.binary_join(lists, pa.scalar(b"", pa.binary()))
    return pc.binary_join_element_wise(_fixed(sizes.astype(">u2")), joined, b"")


def _edges(column: pa.Array) -> tuple[Numbers, Numbers]:
    """Start and end of the members of each row; a NULL row has none."""
    if pat.is_fixed_size_list(column.type):
        begins = (np.arange(len(column)) + column.offset) * column.type.list_size
        ends = begins + column.type.list_size
    else:
        offsets = np.asarray(column.offsets.to_numpy(), np.int64)
        begins, ends = offsets[:-1], offsets[1:]
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    return begins, np.where(is_valid, ends, begins)


def _fixed(numbers: NDArray[np.uint32] | NDArray[np.uint16]) -> pa.Array:
    """The bytes of each number."""
    width = numbers.dtype.itemsize
    offsets = pa.py_buffer(np.arange(len(numbers) + 1, dtype=np.int32) * width)
    bodies = pa.py_buffer(numbers.tobytes())
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, offsets, bodies])
