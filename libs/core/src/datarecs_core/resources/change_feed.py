"""One change of a declared object in the feed, and what a watcher with a selector sees of it.

Pure. A change carries the object as it was after the write, so that what a watcher receives depends
on the change alone, never on when it is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from datarecs_core.resources.changes import Op
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.resources.selector import EVERYTHING, Selector
from datarecs_core.values import ResourceUid


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChange:
    """One effective write of one object."""

    rv: int
    """Its number in the feed."""
    kind: Kind
    namespace: str
    name: str
    uid: ResourceUid
    op: Op
    generation: int
    """After the write."""
    changed: tuple[str, ...]
    """Parts that differ, of an update."""
    actor: str
    at: datetime
    resource: Resource | None
    """The object after the write; for DELETED its last state. None: recorded by an older
    release."""
    old_labels: Mapping[str, str] | None = None
    """Labels before the write, if it changed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFilter:
    """Which objects a watcher follows."""

    kind: Kind
    namespace: str | None = None
    """None: of every namespace."""
    selector: Selector = field(default=EVERYTHING)

    def covers(self, change: ResourceChange) -> bool:
        """Whether the object is of this kind and namespace, whatever its labels."""
        return change.kind is self.kind and self.namespace in {None, change.namespace}

    def shown_as(self, change: ResourceChange) -> Op | None:
        """What the change is for this watcher: None if it does not concern it.

        An object that leaves the selection is DELETED, one that enters it CREATED.
        """
        if not self.covers(change) or change.resource is None:
            return None
        labels = change.resource.labels
        is_in = self.selector.matches(labels)
        old = labels if change.old_labels is None else change.old_labels
        was_in = change.op is not Op.CREATED and self.selector.matches(old)
        if change.op is Op.DELETED:
            return Op.DELETED if was_in else None
        if is_in == was_in:
            return change.op if is_in else None
        return Op.CREATED if is_in else Op.DELETED
