"""What a write does to a resource: which parts differ, which number grows, which event is sent.

Pure: returns the new state, its record in the change feed and its event as one value, or None when
nothing differs, because a write without effect leaves no trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.resources.conditions import phase_of
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.events import (
    ResourceCreated,
    ResourceDeleted,
    ResourceEvent,
    ResourceFinalized,
    ResourceFinalizeFailed,
    ResourceReconciled,
    ResourceReconcileFailed,
    ResourceStatusUpdated,
    ResourceUpdated,
)
from datarecs_core.resources.reconciling import DRAIN_SINK, IN_USE, RECONCILE_AT
from datarecs_core.resources.refusals import FinalizerAddedError
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId


class Op(StrEnum):
    """The kind of a record of the change feed."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    STATUS_UPDATED = "STATUS_UPDATED"
    DELETED = "DELETED"


_EVENTS: Mapping[Op, type[ResourceEvent]] = {
    Op.CREATED: ResourceCreated,
    Op.UPDATED: ResourceUpdated,
    Op.STATUS_UPDATED: ResourceStatusUpdated,
    Op.DELETED: ResourceDeleted,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One effective write: the object after it (for DELETED: its last state)."""

    resource: Resource
    op: Op
    changed: tuple[str, ...]
    event: ResourceEvent
    old_labels: Mapping[str, str] | None = None
    """Labels before the write, if it changed them: a watcher sees objects leave its selection."""

    @property
    def is_gone(self) -> bool:
        return self.op is Op.DELETED


def changed_parts(before: Resource, after: Resource) -> tuple[str, ...]:
    """Which of spec, labels, annotations, finalizers, deletionTimestamp, status differ."""
    pairs = (
        ("spec", is_same(before.spec, after.spec)),
        ("labels", before.labels == after.labels),
        ("annotations", before.annotations == after.annotations),
        ("finalizers", before.finalizers == after.finalizers),
        ("deletionTimestamp", before.deletion_at == after.deletion_at),
        ("status", is_same(before.status, after.status)),
    )
    return tuple(name for name, same in pairs if not same)


def is_same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Equal as JSON: order of keys and kind of sequence do not count."""
    return _bytes(one) == _bytes(other)


def _bytes(value: Mapping[str, object]) -> bytes:
    as_json: Mapping[str, JsonValue] = value  # type: ignore[assignment]  # stored as JSON
    return canonical_json(as_json)


def create(
    declared: Declared, *, tenant_id: TenantId, uid: ResourceUid, rv: int, now: datetime
) -> Write:
    """The object at its beginning: generation 1."""
    resource = Resource(
        tenant_id=tenant_id,
        uid=uid,
        kind=declared.kind,
        namespace=declared.namespace,
        name=declared.name,
        generation=1,
        rv=rv,
        spec=declared.spec,
        spec_hash=declared.spec_hash,
        labels=declared.labels,
        annotations=declared.annotations,
        finalizers=declared.finalizers,
        created_at=now,
    )
    return _write(resource, Op.CREATED, (), now=now)


def _annotations(stored: Resource, declared: Declared) -> Mapping[str, str]:
    """The declared ones, and when a reconcile was requested: no file has to repeat that."""
    requested = stored.annotations.get(RECONCILE_AT)
    if requested is None:
        return declared.annotations
    return {RECONCILE_AT: requested, **declared.annotations}


def declare(stored: Resource, declared: Declared, *, rv: int, now: datetime) -> Write | None:
    """The stored object with the new declaration; None when it is equal.

    Generation grows when the spec differs. When the last finalizer of an object that is being
    deleted is removed, the object is deleted.

    Raises:
        FinalizerAddedError: a finalizer is new although the object is being deleted.
    """
    finalizers = _finalizers(stored, declared)
    added = tuple(name for name in finalizers if name not in stored.finalizers)
    if stored.deletion_at is not None and added:
        raise FinalizerAddedError(added=added)
    after = replace(
        stored,
        rv=rv,
        version=stored.version + 1,
        spec=declared.spec,
        spec_hash=declared.spec_hash,
        labels=declared.labels,
        annotations=_annotations(stored, declared),
        finalizers=finalizers,
    )
    changed = changed_parts(stored, after)
    if not changed:
        return None
    if "spec" in changed:
        after = replace(after, generation=stored.generation + 1)
    if after.deletion_at is not None and not after.finalizers:
        return _write(after, Op.DELETED, changed, now=now, before=stored)
    return _write(after, Op.UPDATED, changed, now=now, before=stored)


def _finalizers(stored: Resource, declared: Declared) -> tuple[str, ...]:
    """The declared ones; an apply ends no wait of a connection for its users, or of a sink."""
    waits = {Kind.CONNECTION: IN_USE, Kind.SINK_TABLE: DRAIN_SINK}.get(stored.kind)
    is_held = stored.deletion_at is not None and waits in stored.finalizers
    held = (waits,) if is_held and waits is not None else ()
    return tuple(dict.fromkeys((*declared.finalizers, *held)))


def delete(
    stored: Resource, *, rv: int, now: datetime, held_by: tuple[str, ...] = ()
) -> Write | None:
    """Deleted at once, or marked while finalizers remain; None when it is marked already.

    Args:
        stored: the current resource.
        rv: resource version of the write.
        now: database time.
        held_by: finalizers that the platform adds, because something of the object is open.
    """
    finalizers = tuple(dict.fromkeys((*stored.finalizers, *held_by)))
    if not finalizers:
        gone = replace(stored, rv=rv, version=stored.version + 1)
        return _write(gone, Op.DELETED, (), now=now, before=stored)
    if stored.deletion_at is not None:
        return None
    marked = replace(
        stored,
        rv=rv,
        version=stored.version + 1,
        finalizers=finalizers,
        deletion_at=now,
        generation=stored.generation + 1,
    )
    return _write(marked, Op.UPDATED, changed_parts(stored, marked), now=now, before=stored)


def release(stored: Resource, finalizer: str, *, rv: int, now: datetime) -> Write | None:
    """The object without this finalizer, gone where it was the last; None where it has none."""
    if finalizer not in stored.finalizers:
        return None
    after = replace(
        stored,
        rv=rv,
        version=stored.version + 1,
        finalizers=tuple(one for one in stored.finalizers if one != finalizer),
    )
    is_last = after.deletion_at is not None and not after.finalizers
    op = Op.DELETED if is_last else Op.UPDATED
    return _write(after, op, ("finalizers",), now=now, before=stored)


def observe(
    stored: Resource,
    status: Mapping[str, object],
    *,
    observed_generation: int,
    rv: int,
    now: datetime,
) -> Write | None:
    """The controller's view of the object; None when it is the one stored.

    Raises:
        ValueError: the controller claims a generation that the object has not reached.
    """
    if observed_generation > stored.generation:
        raise ValueError("a status cannot be of a generation that does not exist yet")
    after = replace(
        stored,
        rv=rv,
        version=stored.version + 1,
        status=status,
        observed_generation=observed_generation,
    )
    changed = changed_parts(stored, after)
    if not changed and observed_generation == stored.observed_generation:
        return None
    return _write(after, Op.STATUS_UPDATED, ("status",), now=now, before=stored)


def reconciled(before: Resource, after: Resource, *, error: str, now: datetime) -> ResourceEvent:
    """The event of a reconcile that changed the status; `error` is empty after a success."""
    kind: type[ResourceEvent] = ResourceReconciled
    if error:
        is_dying = before.deletion_at is not None
        kind = ResourceFinalizeFailed if is_dying else ResourceReconcileFailed
    return replace(
        _event(kind, after, before, Op.STATUS_UPDATED, ("status",), now=now),
        old_phase=phase_of(before),
        new_phase=phase_of(after),
        error=error or None,
    )


def finalized(before: Resource, write: Write, *, now: datetime) -> ResourceEvent:
    """The event of a write that took a finalizer of the platform away."""
    return _event(ResourceFinalized, write.resource, before, write.op, write.changed, now=now)


def _write(
    resource: Resource,
    op: Op,
    changed: tuple[str, ...],
    *,
    now: datetime,
    before: Resource | None = None,
) -> Write:
    event = _event(_EVENTS[op], resource, before, op, changed, now=now)
    had_others = before is not None and before.labels != resource.labels
    return Write(
        resource=resource,
        op=op,
        changed=changed,
        event=event,
        old_labels=before.labels if before and had_others else None,
    )


def _event(  # noqa: PLR0913  the write, part by part
    kind: type[ResourceEvent],
    after: Resource,
    before: Resource | None,
    op: Op,
    changed: tuple[str, ...],
    *,
    now: datetime,
) -> ResourceEvent:
    """An event of this kind about a write."""
    return kind(
        tenant_id=after.tenant_id,
        api_version=after.api_version,
        kind=after.kind,
        namespace=after.namespace,
        name=after.name,
        uid=after.uid,
        generation=after.generation,
        resource_version=str(after.version),
        changed=changed,
        change_type=str(op),
        observed_generation=after.observed_generation,
        old_generation=before.generation if before else None,
        timestamp=now,
    )
