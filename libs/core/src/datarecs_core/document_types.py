"""Whether the values of a dataclass are those of its type hints, for documents of strangers.

`from_document` trusts whoever wrote the document; what a child or another host reports is compared
with the hints before anything uses it.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from itertools import repeat
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from datarecs_core.documents import from_document
from datarecs_core.hashing import JsonValue

T = TypeVar("T")


def strict_document(kind: type[T], document: JsonValue) -> T:
    """As `from_document`, and every value is of its declared type.

    Raises:
        ValueError: with the first field that does not fit.
    """
    value = from_document(kind, document)
    for fault in _faults(value, kind, kind.__name__):
        raise ValueError(fault)
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _faults(value: object, hint: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - a type hint
    if isinstance(hint, NewType):
        yield from _faults(value, hint.__supertype__, where)
    elif get_origin(hint) in (Union, types.UnionType):
        if all(any(_faults(value, one, where)) for one in get_args(hint)):
            yield f"{where} is of none of its types"
    elif isinstance(hint, type) and is_dataclass(hint):
        yield from _record_faults(value, hint, where)
    elif get_origin(hint) is not None:
        yield from _collection_faults(value, hint, where)
    elif not _is_plain(value, hint):
        yield f"{where} is not of type {getattr(hint, '__name__', hint)}"


def _record_faults(value: object, hint: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - a class
    if not isinstance(value, hint):
        yield f"{where} is not of type {hint.__name__}"
        return
    hints = _hints(hint)
    for each in fields(hint):
        yield from _faults(getattr(value, each.name), hints[each.name], f"{where}.{each.name}")


def _collection_faults(value: object, hint: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - a type hint
    arguments = get_args(hint)
    if get_origin(hint) is not tuple:
        yield from _mapping_faults(value, arguments, where)
        return
    if not isinstance(value, tuple):
        yield f"{where} is no list"
        return
    is_open = arguments[-1:] == (Ellipsis,)
    if not is_open and len(value) != len(arguments):
        yield f"{where} has not {len(arguments)} elements"
        return
    elements = repeat(arguments[0]) if is_open else iter(arguments)
    for one, element in zip(value, elements, strict=False):
        yield from _faults(one, element, where)


def _mapping_faults(value: object, arguments: tuple[Any, ...], where: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{where} is no object"
        return
    for key, item in value.items():
        yield from _faults(key, arguments[0], where)
        yield from _faults(item, arguments[1], where)


def _is_plain(value: object, hint: Any) -> bool:  # noqa: ANN401 - a type hint
    if hint is object or hint is Any:
        return True
    if hint is None or hint is types.NoneType:
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if isinstance(value, datetime) and value.tzinfo is None:
        return False
    return isinstance(value, hint) or (hint is float and isinstance(value, int))
