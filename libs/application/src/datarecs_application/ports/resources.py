"""State of declared objects: their rows, their change feed, and who uses them.

Separate from `state`, which joins all ports of a transaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from datarecs_core.resources.change_feed import ResourceChange
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.resources.selector import EVERYTHING, Selector
from datarecs_core.values import ResourceUid


class ConnectionUser(NamedTuple):
    """A job or capture that reads from a connection, or a sink that uses it."""

    kind: Kind
    namespace: str
    name: str


class ConnectionUsers(NamedTuple):
    """Jobs, captures and sinks that use a connection."""

    first: tuple[ConnectionUser, ...]
    """Captures, jobs, then sinks, by namespace and name; as many as the limit allows."""
    total: int
    """Of all of them."""


class Resources(Protocol):
    """The rows of `resource` and `resource_change`."""

    def get(self, kind: Kind, namespace: str, name: str) -> Resource | None: ...

    def get_by_uid(self, uid: ResourceUid) -> Resource | None: ...

    def get_by_uids(self, uids: Collection[ResourceUid]) -> Mapping[ResourceUid, Resource]: ...

    def for_update(self, kind: Kind, namespace: str, name: str) -> Resource | None: ...

    def add(self, resource: Resource) -> None:
        """Insert. Raises ResourceExistsError when the name is taken."""

    def replace(self, resource: Resource, *, expected_rv: int) -> bool:
        """Compare-and-set on rv; False when another write came first."""

    def remove(self, resource: Resource, *, expected_rv: int) -> bool:
        """Delete the row; the change record stores the last body as a tombstone."""

    def record_change(
        self,
        resource: Resource,
        *,
        op: str,
        changed: Sequence[str],
        actor: str,
        old_labels: Mapping[str, str] | None = None,
    ) -> None:
        """Append to the change feed under `resource.rv`, with the object after the write.

        `op` is CREATED, UPDATED, STATUS_UPDATED or DELETED; `old_labels` are the labels before a
        write that changed them.
        """

    def changes_of(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        limit: int,
        before: int | None = None,
    ) -> list[ResourceChange]:
        """Recorded changes of every object that had this name, newest first.

        `before` is the number of the last change already read. Also of objects that are deleted.
        """

    def hold(self, kind: Kind, namespace: str, names: Iterable[str]) -> None:
        """Protect these objects from deletion until the transaction ends.

        Waits for a running deletion; a name without an object is ignored.
        """

    def users_of(self, connection: str, *, limit: int) -> ConnectionUsers:
        """Jobs with a source on the connection of this name, captures of it, and sinks that use it.

        Of every namespace. After `for_update` of the connection it counts every one that held it.
        """

    def page(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        limit: int = 50,
        before: tuple[datetime, ResourceUid] | None = None,
    ) -> list[Resource]:
        """Newest first by (created_at, uid), strictly before the cursor."""
