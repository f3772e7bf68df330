"""What a record does to the rows of its key."""

from collections.abc import Mapping
from typing import Any

import pytest

from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.changes import RecordChanges
from datarecs_core.sink.definition import (
    CdcRule,
    RowChange,
    SinkMode,
    SinkTable,
    SinkTarget,
    Tombstones,
)

INSERT, UPDATE, DELETE = RowChange


def rule(mode: SinkMode, **changes: Any) -> RecordChanges:  # noqa: ANN401  fields of SinkTable
    target = SinkTarget(catalog="lake", namespace=("sales",), name="orders")
    sink = SinkTable(connection="k", topics=("orders",), tables=(target,), mode=mode, **changes)
    return RecordChanges.of(sink)


@pytest.mark.parametrize(
    ("mode", "change", "tombstones", "deletes"),
    [
        (SinkMode.APPEND, INSERT, None, False),
        (SinkMode.UPSERT, UPDATE, None, True),
        (SinkMode.UPSERT, UPDATE, Tombstones.IGNORE, False),
        (SinkMode.CDC, UPDATE, Tombstones.DELETE, True),
    ],
)
def test_the_mode_decides(
    mode: SinkMode, change: RowChange, tombstones: Tombstones | None, *, deletes: bool
) -> None:
    changes = rule(mode, tombstones=tombstones)
    assert (changes.change({"op": "d"}), changes.deletes_by_tombstone) == (change, deletes)


@pytest.mark.parametrize(
    ("text", "change"),
    [("i", INSERT), ("Create", INSERT), ("r", INSERT), ("update", UPDATE), ("D", DELETE)],
)
def test_without_a_map_the_first_letter_decides(text: str, change: RowChange) -> None:
    changes = rule(SinkMode.CDC, cdc=CdcRule(path="meta.op"))
    assert changes.change({"meta": {"op": text}}) is change


def test_a_map_decides_alone() -> None:
    changes = rule(SinkMode.CDC, cdc=CdcRule(path="op", map={"x": DELETE}))
    assert changes.change({"op": "x"}) is DELETE
    with pytest.raises(BadRecordError, match="no known change"):
        changes.change({"op": "d"})


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"meta": "u"},
        {"meta": {"op": 1}},
        *(
            {"meta": {"op": letter}}
            for letter in map(chr, range(0x110000))
            if letter.upper() in "ICRUD" and letter not in "icrudICRUD"
        ),
        {"meta": {"op": "t"}},
    ],
)
def test_a_record_that_does_not_say_its_change_is_bad(value: Mapping[str, object]) -> None:
    changes = rule(SinkMode.CDC, cdc=CdcRule(path="meta.op"))
    with pytest.raises(BadRecordError) as bad:
        changes.change(value)
    assert bad.value.path == "meta.op"
