"""Dedupe keys and claim keys: what is equal, and what never runs at once."""

from dataclasses import replace
from uuid import UUID

import pytest

from datarecs_core.captures.items import CaptureJobId, CaptureTask, WorkKind
from datarecs_core.captures.keys import claim_key, dedupe_key
from datarecs_core.captures.request import CapturePolicy, CaptureScope, Output
from datarecs_core.values import ResourceUid
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.captures import TABLE, a_name, a_request, a_snapshot, a_table, groups

ROOT, PARENT = WorkKind.PLAN_CONNECTOR, CaptureJobId(UUID(int=7))


def key(task: CaptureTask, kind: WorkKind = ROOT, parent: CaptureJobId | None = None) -> str:
    return dedupe_key(A_TENANT, kind, parent, task)


def test_the_order_of_lists_is_no_difference() -> None:
    outputs = (Output.TABLE_STATS, Output.COLUMN_STATS)
    scopes = [
        CaptureScope(namespaces=(("a",), ("b",)), tables=(a_name("x"), a_name("y"))),
        CaptureScope(namespaces=(("b",), ("a",)), tables=(a_name("y"), a_name("x"))),
    ]
    policies = [
        CapturePolicy(outputs=outputs, columns=("a", "b")),
        CapturePolicy(outputs=outputs[::-1], columns=("b", "a")),
    ]
    tasks = [
        CaptureTask(request=a_request(scope=scope, policy=policy))
        for scope, policy in zip(scopes, policies, strict=True)
    ]
    assert key(tasks[0]) == key(tasks[1])
    assert claim_key(ROOT, tasks[0]) == claim_key(ROOT, tasks[1])


def test_tenant_kind_and_parent_are_part_of_the_key() -> None:
    task = CaptureTask(request=a_request("t"))
    keys = {
        key(task),
        key(task, WorkKind.PLAN_VIEW),
        key(task, parent=PARENT),
        dedupe_key(B_TENANT, ROOT, None, task),
    }
    assert len(keys) == 4


def test_a_name_beside_an_id_is_no_difference_and_alone_it_is_one() -> None:
    snapshot = a_snapshot(3).task
    kind = WorkKind.PLAN_SNAPSHOT
    assert key(snapshot, kind) == key(replace(snapshot, object=a_name("t")), kind)
    assert key(snapshot, kind) == key(replace(snapshot, native_id="other"), kind)
    current = replace(snapshot, snapshot_id=None)
    assert key(current, kind) != key(replace(current, native_id="other"), kind)
    assert key(a_table("a", a_request("t")).task) != key(a_table("b", a_request("t")).task)


def test_groups_of_a_plan_differ_and_have_no_claim_key() -> None:
    *parts, final = groups(3)
    assert len({key(one.task) for one in parts}) == 3
    assert {claim_key(one.kind, one.task) for one in parts} == {None}
    assert claim_key(final.kind, final.task) == f"lane:finalize:{TABLE}:1"


def test_objects_of_two_connections_have_two_keys() -> None:
    here, there = a_request("t"), a_request("t", connection_uid=ResourceUid(an_id()))
    for kind in (ROOT, WorkKind.PLAN_TABLE, WorkKind.PLAN_VIEW):
        tasks = [CaptureTask(request=one, object=a_name("t")) for one in (here, there)]
        assert len({claim_key(kind, task) for task in tasks}) == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, f"snapshot:{TABLE}:3"),
        ({"snapshot_id": None, "native_id": None}, f"snapshot:{TABLE}:*"),
    ],
)
def test_a_snapshot_is_planned_once_at_a_time(changes: dict[str, object], expected: str) -> None:
    task = replace(a_snapshot(3).task, **changes)  # type: ignore[arg-type]  # fields of the task
    assert claim_key(WorkKind.PLAN_SNAPSHOT, task) == expected


def test_a_native_id_names_a_snapshot_without_an_id() -> None:
    tasks = [replace(a_snapshot(3).task, snapshot_id=None, native_id=one) for one in ("a", "b")]
    assert len({claim_key(WorkKind.PLAN_SNAPSHOT, task) for task in tasks}) == 2
