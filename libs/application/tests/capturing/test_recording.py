from dataclasses import replace
from uuid import UUID

import pytest

from datarecs_application.capturing.recording import MOST_PLANS, Plans, files_at_once
from datarecs_core.captures.plan import SnapshotPlan
from datarecs_core.captures.request import CapturePolicy, ObjectName
from datarecs_core.captures.source_facts import Completion


def a_plan(native_id: str) -> SnapshotPlan:
    return SnapshotPlan(
        table_id=UUID(int=1),
        snapshot_id=1,
        native_id=native_id,
        object=ObjectName(namespace=("default",), name="orders"),
        generation="g",
        completion=Completion.FILE_GROUPS,
        policy=CapturePolicy(),
        columns=(),
        files=(),
        reused=(),
        groups=(),
    )


def test_a_plan_is_read_once_and_the_ones_used_longest_ago_are_dropped() -> None:
    plans, read = Plans(), list[str]()

    def get(key: str) -> SnapshotPlan:
        def stored() -> SnapshotPlan:
            read.append(key)
            return a_plan(key)

        return plans.get(key, stored)

    for key in ("a", "b", "a", "b", "a"):
        assert get(key) == a_plan(key)
    assert read == ["a", "b"]
    get("c")
    get("a")
    assert read == ["a", "b", "c"]
    get("b")
    assert read[MOST_PLANS + 1 :] == ["b"]


@pytest.mark.parametrize(("columns", "files"), [(0, 500), (4, 500), (32, 62), (5_000, 1)])
def test_wide_tables_have_fewer_files_between_two_statements(columns: int, files: int) -> None:
    names = tuple(f"c{number}" for number in range(columns))
    assert files_at_once(replace(a_plan("1"), columns=names)) == files
