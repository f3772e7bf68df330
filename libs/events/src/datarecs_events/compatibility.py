"""Finds changes of a published schema that break readers: a check before every release.

Within a type only optional fields may be added, with a higher addition number. All other changes
need a new type. It compares the published schemas, so the code of the last release is not needed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_KIND = ("type", "format", "pattern", "const", "enum", "oneOf", "not", "propertyNames")
_UPPER = ("maxLength", "maximum", "maxItems")
_LOWER = ("minLength", "minimum", "minItems")


def breaking_changes(old: Schema, new: Schema) -> tuple[str, ...]:
    """The changes in `new` that break readers of `old`, in words; empty if it may be published."""
    broken = tuple(_compare(old, new, ""))
    grown = _all_fields(new) - _all_fields(old)
    if not broken and grown and _addition(new) <= _addition(old):
        return (f"{', '.join(sorted(grown))} added, so the addition number must be increased",)
    return broken


def _compare(old: Schema, new: Schema, path: str) -> Iterator[str]:
    where = path or "the payload"
    for word in _KIND:
        if old.get(word) != new.get(word):
            yield f"{where}: {word} changed"
    yield from _limits(old, new, where)
    yield from _fields(old, new, path)
    for inner in ("items", "additionalProperties"):
        if isinstance(old.get(inner), dict) and isinstance(new.get(inner), dict):
            yield from _compare(old[inner], new[inner], f"{path}[]")


def _limits(old: Schema, new: Schema, where: str) -> Iterator[str]:
    for word in _UPPER:
        if word in new and (word not in old or new[word] < old[word]):
            yield f"{where}: {word} is narrower"
    for word in _LOWER:
        if word in new and (word not in old or new[word] > old[word]):
            yield f"{where}: {word} is narrower"


def _fields(old: Schema, new: Schema, path: str) -> Iterator[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    for name, schema in before.items():
        if name not in after:
            yield f"{path}{name}: removed"
        else:
            yield from _compare(schema, after[name], f"{path}{name}.")
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{path}{name}: now required"
    for name in sorted(set(old.get("required", ())) - set(new.get("required", ()))):
        if name in after:
            yield f"{path}{name}: no longer required"


def _all_fields(schema: Schema, path: str = "") -> set[str]:
    paths: set[str] = set()
    for name, inner in schema.get("properties", {}).items():
        paths |= {f"{path}{name}"} | _all_fields(inner, f"{path}{name}.")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            paths |= _all_fields(schema[word], f"{path}[].")
    return paths


def _addition(schema: Schema) -> int:
    return int(str(schema["$id"]).rsplit(".", 1)[1])
