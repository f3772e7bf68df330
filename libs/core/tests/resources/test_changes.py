"""What a write does to a resource, and what leaves no trace."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from datarecs_core.resources.changes import (
    Op,
    Write,
    changed_parts,
    create,
    declare,
    delete,
    observe,
    release,
)
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.reconciling import RECONCILE_AT
from datarecs_core.resources.refusals import FinalizerAddedError
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId

TENANT = TenantId(UUID(int=1))
UID = ResourceUid(UUID(int=2))
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = datetime(2026, 1, 15, 13, tzinfo=UTC)
DECLARED = Declared(
    kind=Kind.CONNECTION,
    name="files",
    labels={"team": "finance"},
    spec={"type": "files", "config": {"root": "data"}, "auth": {}},
    spec_hash="sha256:1",
)
OTHER_SPEC = {**DECLARED.spec, "config": {"root": "other"}}
KEEP = "example.com/keep"


def stored(declared: Declared = DECLARED) -> Resource:
    return create(declared, tenant_id=TENANT, uid=UID, rv=1, now=NOON).resource


def again(declared: Declared, before: Resource | None = None) -> Write | None:
    return declare(before or stored(), declared, rv=2, now=LATER)


def wrote(write: Write | None) -> Write:
    assert write is not None
    return write


@pytest.mark.case("R01")
def test_a_new_object_starts_at_generation_1_with_one_event() -> None:
    write = create(DECLARED, tenant_id=TENANT, uid=UID, rv=7, now=NOON)
    assert (write.op, write.resource.generation, write.resource.rv) == (Op.CREATED, 1, 7)
    assert (write.event.change_type, write.event.resource_version) == ("CREATED", "1")


def test_saying_the_same_after_a_requested_reconcile_writes_nothing() -> None:
    requested = replace(stored(), annotations={RECONCILE_AT: "2026-01-15T12:30:00Z"})
    assert again(DECLARED, requested) is None
    other = wrote(again(replace(DECLARED, spec=OTHER_SPEC), requested)).resource
    assert other.annotations == requested.annotations
    declared = replace(DECLARED, annotations={RECONCILE_AT: "now"})
    assert wrote(again(declared, requested)).resource.annotations == declared.annotations


@pytest.mark.case("R02")
def test_saying_the_same_again_writes_nothing() -> None:
    reordered = dict(reversed(list(DECLARED.spec.items())))
    assert again(replace(DECLARED, spec=reordered)) is None


@pytest.mark.case("R03")
def test_another_spec_raises_the_generation_and_leaves_the_status() -> None:
    before = replace(stored(), status={"phase": "Ready"})
    write = wrote(again(replace(DECLARED, spec=OTHER_SPEC), before))
    assert (write.op, write.changed, write.resource.generation) == (Op.UPDATED, ("spec",), 2)
    assert (write.resource.status, write.event.old_generation) == ({"phase": "Ready"}, 1)


@pytest.mark.case("R04")
def test_a_status_write_preserves_the_generation() -> None:
    write = wrote(observe(stored(), {"phase": "Ready"}, observed_generation=1, rv=2, now=LATER))
    assert (write.op, write.changed, write.resource.generation) == (
        Op.STATUS_UPDATED,
        ("status",),
        1,
    )


def test_an_identical_status_is_not_written() -> None:
    seen = wrote(observe(stored(), {"n": Decimal("0.10")}, observed_generation=1, rv=2, now=NOON))
    same = observe(seen.resource, {"n": Decimal("0.10")}, observed_generation=1, rv=3, now=LATER)
    assert same is None


def test_a_status_of_a_generation_to_come_is_refused() -> None:
    with pytest.raises(ValueError, match="does not exist yet"):
        observe(stored(), {}, observed_generation=2, rv=2, now=LATER)


@pytest.mark.case("R05")
@pytest.mark.parametrize(
    ("declared", "part"),
    [
        (replace(DECLARED, labels={}), "labels"),
        (replace(DECLARED, annotations={"note": "x"}), "annotations"),
        (replace(DECLARED, finalizers=(KEEP,)), "finalizers"),
    ],
)
def test_a_change_of_metadata_is_named_and_preserves_the_generation(
    declared: Declared, part: str
) -> None:
    write = wrote(again(declared))
    assert (write.op, write.changed, write.resource.generation) == (Op.UPDATED, (part,), 1)


@pytest.mark.case("R05")
def test_the_mark_of_deletion_raises_the_generation() -> None:
    write = wrote(delete(stored(replace(DECLARED, finalizers=(KEEP,))), rv=2, now=LATER))
    assert (write.op, write.changed, write.resource.generation) == (
        Op.UPDATED,
        ("deletionTimestamp",),
        2,
    )
    assert (write.resource.deletion_at, write.is_gone) == (LATER, False)


@pytest.mark.case("R11")
def test_without_finalizers_the_object_goes_at_once() -> None:
    write = wrote(delete(stored(), rv=2, now=LATER))
    assert (write.op, write.is_gone, write.resource.spec) == (Op.DELETED, True, DECLARED.spec)


@pytest.mark.case("R11")
def test_a_second_delete_changes_nothing() -> None:
    marked = wrote(delete(stored(replace(DECLARED, finalizers=(KEEP,))), rv=2, now=LATER))
    assert delete(marked.resource, rv=3, now=LATER) is None


@pytest.mark.case("R11")
def test_while_it_is_deleted_finalizers_are_only_removed() -> None:
    marked = wrote(delete(stored(replace(DECLARED, finalizers=(KEEP,))), rv=2, now=LATER))
    with pytest.raises(FinalizerAddedError) as refused:
        again(replace(DECLARED, finalizers=(KEEP, "example.com/more")), marked.resource)
    assert refused.value.added == ("example.com/more",)


@pytest.mark.case("R11")
def test_the_last_finalizer_takes_the_object_along() -> None:
    marked = wrote(delete(stored(replace(DECLARED, finalizers=(KEEP,))), rv=2, now=LATER))
    write = wrote(declare(marked.resource, DECLARED, rv=3, now=LATER))
    assert (write.op, write.changed, write.is_gone) == (Op.DELETED, ("finalizers",), True)


def test_every_part_that_differs_is_named() -> None:
    before = stored()
    after = replace(
        before,
        spec=OTHER_SPEC,
        labels={},
        annotations={"a": "b"},
        finalizers=(KEEP,),
        deletion_at=LATER,
        status={"x": 1},
    )
    assert changed_parts(before, after) == (
        "spec",
        "labels",
        "annotations",
        "finalizers",
        "deletionTimestamp",
        "status",
    )


def test_the_platform_holds_a_deleted_object_until_its_finalizer_is_released() -> None:
    marked = delete(stored(), rv=2, now=LATER, held_by=(KEEP,))
    assert marked is not None
    assert (marked.op, marked.resource.finalizers) == (Op.UPDATED, (KEEP,))
    assert marked.changed == ("finalizers", "deletionTimestamp")
    gone = release(marked.resource, KEEP, rv=3, now=LATER)
    assert gone is not None
    assert gone.is_gone
    assert release(gone.resource, KEEP, rv=4, now=LATER) is None


def test_a_released_object_stays_while_another_finalizer_holds_it_or_nobody_deletes_it() -> None:
    held = replace(stored(), finalizers=(KEEP, "example.com/other"), deletion_at=NOON)
    alive = replace(stored(), finalizers=(KEEP,))
    ops = [write.op for one in (held, alive) if (write := release(one, KEEP, rv=2, now=LATER))]
    assert ops == [Op.UPDATED, Op.UPDATED]
