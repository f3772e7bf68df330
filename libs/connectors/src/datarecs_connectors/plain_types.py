"""Arrow types without storage details, and the common type of several files.

Separate from `arrow_types`, which defines what a type means, because here types are compared with
each other.
"""

import pyarrow as pa
import pyarrow.types as pat

from datarecs_connectors.arrow_types import is_list

_STORED_AS = (
    (pat.is_large_string, pa.string()),
    (pat.is_string_view, pa.string()),
    (pat.is_large_binary, pa.binary()),
    (pat.is_binary_view, pa.binary()),
    (pat.is_fixed_size_binary, pa.binary()),
)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The plain type: equal for columns with equal values, independent of their storage."""
    if pat.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pat.is_nested(kind):
        return _nested(kind)
    return next((plain for fits, plain in _STORED_AS if fits(kind)), kind)


def _nested(kind: pa.DataType) -> pa.DataType:
    if is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pat.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pat.is_struct(kind):
        members = sorted(kind, key=lambda each: each.name)
        return pa.struct([(each.name, plain_type(each.type)) for each in members])
    return kind


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The plain type for the values of both: a column without values fits every type.

    None if they differ.
    """
    if pat.is_null(one) or one == other:
        return other
    if pat.is_null(other):
        return one
    if pat.is_struct(one) and pat.is_struct(other):
        return _common_struct(one, other)
    if pat.is_list(one) and pat.is_list(other):
        element = common_type(one.value_type, other.value_type)
        return None if element is None else pa.list_(element)
    if pat.is_map(one) and pat.is_map(other):
        key = common_type(one.key_type, other.key_type)
        item = common_type(one.item_type, other.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def _common_struct(one: pa.StructType, other: pa.StructType) -> pa.DataType | None:
    if [each.name for each in one] != [each.name for each in other]:
        return None
    members = []
    for mine, theirs in zip(one, other, strict=True):
        member = common_type(mine.type, theirs.type)
        if member is None:
            return None
        members.append((mine.name, member))
    return pa.struct(members)
