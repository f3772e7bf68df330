"""Converts events to plain JSON values and back, by their shape.

Reading ignores unknown fields and keeps unknown words of open enums. The codec handles envelopes;
this module handles fields.
"""

import re
from collections.abc import Mapping

from datarecs_events.scalars import MismatchError, read_scalar, write_scalar
from datarecs_events.shapes import ListOf, PerSourceMap, Record, Shape

SOURCE_KEY = re.compile(r"source_(?:0|[1-9][0-9]{0,3})")


def to_plain(shape: Shape, value: object, path: str = "") -> object:
    """Convert `value` to dicts, lists, text, integers, booleans and Decimals, without None.

    Raises:
        MismatchError: a value that readers would refuse.
    """
    match shape:
        case Record():
            return _written_fields(shape, value, path)
        case ListOf(item=item):
            if not isinstance(value, tuple):
                raise MismatchError(path, "a tuple is needed")
            return [to_plain(item, one, f"{path}[{n}]") for n, one in enumerate(value)]
        case PerSourceMap(item=item):
            pairs = _by_source(value, path).items()
            return {key: to_plain(item, one, f"{path}.{key}") for key, one in pairs}
        case _:
            return write_scalar(shape, value, path)


def from_plain(shape: Shape, value: object, path: str = "") -> object:
    """Convert plain JSON to the value; unknown fields are ignored.

    Raises:
        MismatchError: a required field is missing, or a value breaks its field's rule.
    """
    match shape:
        case Record():
            return shape.event_class(**_read_fields(shape, value, path))
        case ListOf(item=item):
            if not isinstance(value, list):
                raise MismatchError(path, "a list is needed")
            return tuple(from_plain(item, one, f"{path}[{n}]") for n, one in enumerate(value))
        case PerSourceMap(item=item):
            pairs = _by_source(value, path).items()
            return {key: from_plain(item, one, f"{path}.{key}") for key, one in pairs}
        case _:
            return read_scalar(shape, value, path)


def _written_fields(shape: Record, value: object, path: str) -> dict[str, object]:
    if not isinstance(value, shape.event_class):
        raise MismatchError(path, f"a {shape.event_class.__name__} is needed")
    plain: dict[str, object] = {}
    for one in shape.fields:
        part = getattr(value, one.name)
        if part is not None:
            plain[one.name] = to_plain(one.shape, part, _joined(path, one.name))
        elif one.required:
            raise MismatchError(_joined(path, one.name), "it is required")
    return plain


def _read_fields(shape: Record, value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MismatchError(path, "an object is needed")
    fields: dict[str, object] = {}
    for one in shape.fields:
        if one.name in value:
            fields[one.name] = from_plain(one.shape, value[one.name], _joined(path, one.name))
        elif one.required:
            raise MismatchError(_joined(path, one.name), "it is required")
    return fields


def _by_source(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise MismatchError(path, "an object is needed")
    for key in value:
        if not isinstance(key, str) or SOURCE_KEY.fullmatch(key) is None:
            raise MismatchError(path, "keys are source_0, source_1 and so on")
    return value


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
