"""Stored specs as typed values, decoded once per uid and generation.

Apart from the use cases because decoding belongs to `datarecs_specs`, which application may not
import: wiring hands it in, and everybody here asks for a value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from datarecs_core.resources.resource import Resource
from datarecs_core.values import ResourceUid

T = TypeVar("T")

_MOST = 10_000
"""Specs kept; beyond that all are forgotten and decoded again."""


@dataclass(slots=True)
class StoredSpecs(Generic[T]):
    """Specs of one kind, across tenants. A generation never changes its spec."""

    read: Callable[[Mapping[str, object]], T]
    """The canonical spec of a row to its typed value."""
    _known: dict[tuple[ResourceUid, int], T] = field(default_factory=dict)

    def of(self, resource: Resource) -> T:
        key = (resource.uid, resource.generation)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[key] = self.read(resource.spec)
        return known
