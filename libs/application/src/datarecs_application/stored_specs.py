"""Stored specs as typed values, decoded once per uid and generation.

Separate from the use cases because decoding belongs to `datarecs_specs`, which application may not
import: the wiring passes it in, and use cases request values here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic, TypeVar

import structlog

from datarecs_application.ports.outside import Metrics
from datarecs_core.errors.base import DatarecsError
from datarecs_core.resources.resource import Resource
from datarecs_core.values import ResourceUid

log = structlog.get_logger()

T = TypeVar("T")

UNREADABLE_AGAIN = timedelta(minutes=10)
"""Until something acts again on an object that this release cannot read; the next one may."""
_MOST = 10_000
"""Cached specs; beyond that the cache is cleared."""


@dataclass(slots=True)
class StoredSpecs(Generic[T]):
    """Specs of one kind, across tenants. A generation never changes its spec."""

    read: Callable[[Mapping[str, object]], T]
    """The canonical spec of a row to its typed value; raises a DatarecsError for another form."""
    metrics: Metrics | None = None
    """Counts the reads that were decoded before, and those that were not."""
    _known: dict[tuple[ResourceUid, int], T | None] = field(default_factory=dict)

    def of(self, resource: Resource) -> T | None:
        """The typed spec; None for one that no longer fits its kind, as after an upgrade.

        Such a resource is skipped, so that it does not affect others.
        """
        key = (resource.uid, resource.generation)
        is_known = key in self._known
        if self.metrics is not None:
            self.metrics.count("cache_reads_total", hit="yes" if is_known else "no")
        if not is_known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = self._read(resource)
        return self._known[key]

    def _read(self, resource: Resource) -> T | None:
        try:
            return self.read(resource.spec)
        except DatarecsError as cause:
            log.exception(
                "stored_spec_unreadable",
                kind=resource.kind.value,
                uid=str(resource.uid),
                code=cause.code.docs_id,
            )
            return None
