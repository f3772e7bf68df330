"""What a watcher with a selector sees of a change."""

from dataclasses import replace

import pytest

from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.resources.changes import Op
from datarecs_core.resources.resource import Kind
from datarecs_core.resources.selector import parse_selector
from datarecs_testing.builders import NOON, a_resource

IN, OUT = {"team": "finance"}, {"team": "hr"}
FINANCE = WatchFilter(kind=Kind.CONNECTION, selector=parse_selector("team=finance"))


def a_change(op: Op, labels: dict[str, str], old: dict[str, str] | None = None) -> ResourceChange:
    resource = a_resource(kind=Kind.CONNECTION, labels=labels)
    return ResourceChange(
        rv=resource.rv,
        kind=resource.kind,
        namespace=resource.namespace,
        name=resource.name,
        uid=resource.uid,
        op=op,
        generation=1,
        changed=(),
        actor="u",
        at=NOON,
        resource=resource,
        old_labels=old,
    )


@pytest.mark.case("R15")
@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (a_change(Op.CREATED, IN), Op.CREATED),
        (a_change(Op.CREATED, OUT), None),
        (a_change(Op.UPDATED, IN), Op.UPDATED),
        (a_change(Op.UPDATED, OUT), None),
        (a_change(Op.STATUS_UPDATED, IN), Op.STATUS_UPDATED),
        (a_change(Op.UPDATED, OUT, old=IN), Op.DELETED),
        (a_change(Op.UPDATED, IN, old=OUT), Op.CREATED),
        (a_change(Op.UPDATED, {**IN, "x": "y"}, old=IN), Op.UPDATED),
        (a_change(Op.DELETED, IN), Op.DELETED),
        (a_change(Op.DELETED, OUT), None),
        (a_change(Op.DELETED, OUT, old=IN), Op.DELETED),
        (a_change(Op.DELETED, IN, old=OUT), None),
    ],
)
def test_entering_a_selection_is_created_and_leaving_it_deleted(
    change: ResourceChange, seen: Op | None
) -> None:
    assert FINANCE.shown_as(change) is seen


def test_another_kind_or_namespace_is_not_seen() -> None:
    change = a_change(Op.CREATED, IN)
    assert replace(FINANCE, kind=Kind.SCHEDULE).shown_as(change) is None
    assert replace(FINANCE, namespace="other").shown_as(change) is None
    assert replace(FINANCE, namespace=change.namespace).shown_as(change) is Op.CREATED


def test_a_change_without_its_object_is_not_seen() -> None:
    assert FINANCE.shown_as(replace(a_change(Op.CREATED, IN), resource=None)) is None
