"""New items of a tree, and the barrier."""

from dataclasses import replace
from uuid import UUID

import pytest

from datarecs_core.captures.facts import BarrierBroken, BarrierMet
from datarecs_core.captures.items import CaptureJobId, CaptureTask, Gate, NewWork, WorkKind
from datarecs_core.captures.items import WorkState as S
from datarecs_core.captures.tree import (
    MAX_DEPTH,
    barrier_fact,
    faults_of,
    new_children,
    new_root,
)
from datarecs_testing.builders import A_TENANT, NOON
from datarecs_testing.captures import a_request, a_table, groups

ROOT = new_root(A_TENANT, a_request("t"), item_id=UUID(int=1), requested_by="u-1", now=NOON)


def test_children_have_the_tree_and_the_requester_of_their_parent() -> None:
    works = [a_table("a", pinned_executor="w"), *groups(1)]
    ids = [UUID(int=number) for number in (10, 11, 12)]
    children = list(new_children(ROOT, works, ids, NOON))
    assert [one.id for one in children] == ids
    assert [one.gate for one in children] == [Gate.OPEN, Gate.OPEN, Gate.BARRIER]
    assert {(one.root_id, one.parent_id, one.ancestors) for one in children} == {
        (ROOT.id, ROOT.id, (ROOT.id,))
    }
    assert {one.requested_by for one in children} == {"u-1"}
    assert [one.pinned_executor for one in children] == ["w", None, None]


def test_every_fault_of_children_is_named() -> None:
    task = CaptureTask(request=a_request("t"))
    works = [NewWork(kind=kind, task=task) for kind in WorkKind]
    assert faults_of(ROOT, works) == [
        "PLAN_CONNECTOR is a root",
        "PLAN_TABLE has no object",
        "PLAN_VIEW has no object",
        "PLAN_SNAPSHOT has no table_id",
        "EXEC_FILE_GROUP has no table_id, snapshot_id, plan_key, group",
        "FINALIZE_SNAPSHOT_CAPTURE has no table_id, snapshot_id, plan_key",
    ]
    assert faults_of(ROOT, [a_table("a"), *groups(2)]) == []


def test_a_tree_has_a_depth_and_one_barrier() -> None:
    deep = replace(ROOT, ancestors=tuple(CaptureJobId(UUID(int=n)) for n in range(MAX_DEPTH - 1)))
    assert faults_of(deep, [a_table("a")]) == ["the tree is deeper than 64"]
    assert faults_of(deep, []) == []
    twice = [*groups(1), replace(groups(1)[-1])]
    assert faults_of(ROOT, twice) == ["more than one child waits at the barrier"]


@pytest.mark.parametrize(
    ("states", "fact"),
    [
        ({S.SUCCEEDED: 2}, BarrierMet()),
        ({S.SUCCEEDED: 2, S.FAILED: 1, S.CANCELLED: 1}, BarrierBroken(incomplete=2)),
    ],
)
def test_the_barrier_opens_only_for_complete_groups(
    states: dict[S, int], fact: BarrierMet | BarrierBroken
) -> None:
    assert barrier_fact(states) == fact
