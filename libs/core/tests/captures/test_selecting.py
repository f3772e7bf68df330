"""Which snapshots a capture is about."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from datarecs_core.captures.request import SnapshotChoice, SnapshotSelection
from datarecs_core.captures.selecting import selected, snapshot_id_of

DAWN = datetime(2026, 1, 15, 6, tzinfo=UTC)


@dataclass(frozen=True)
class State:
    committed_at: datetime
    sequence_number: int | None = None


def at(hours: int, sequence: int | None = None) -> State:
    return State(DAWN + timedelta(hours=hours), sequence)


HISTORY = [(90, at(1)), (7, at(3)), (50, at(2)), (8, at(3, sequence=1))]
"""The newest commits have the smallest ids, and two have one time."""


def ids(kind: SnapshotChoice, **fields: object) -> tuple[list[int], list[int]]:
    selection = SnapshotSelection(kind=kind, **fields)  # type: ignore[arg-type]  # any field
    chosen, missing = selected(HISTORY, selection)
    return [number for number, _ in chosen], missing


@pytest.mark.case("Q44")
def test_the_current_snapshot_is_the_newest_commit_and_not_the_largest_id() -> None:
    assert ids(SnapshotChoice.CURRENT) == ([8], [])


def test_the_newest_come_first() -> None:
    assert ids(SnapshotChoice.ALL) == ([8, 7, 50, 90], [])
    assert ids(SnapshotChoice.LATEST_N, latest=3) == ([8, 7, 50], [])
    assert ids(SnapshotChoice.LATEST_N, latest=9) == ([8, 7, 50, 90], [])


def test_ids_that_do_not_exist_are_named() -> None:
    assert ids(SnapshotChoice.EXPLICIT, snapshot_ids=(50, 90, 4, 3)) == ([50, 90], [3, 4])


@pytest.mark.parametrize(
    ("native", "number"),
    [("0", 0), ("8744736658442914487", 8744736658442914487), (str(2**63 - 1), 2**63 - 1)],
)
def test_a_number_of_the_source_is_the_id(native: str, number: int) -> None:
    assert snapshot_id_of(native) == number


@pytest.mark.parametrize("native", [str(2**63), "-1", "007", "²", "", "a/b", "1" * 5000, "1_0"])
def test_any_other_text_has_an_id_that_fits(native: str) -> None:
    number = snapshot_id_of(native)
    assert 0 <= number < 2**63
    assert number == snapshot_id_of(native)
    assert str(number) != native
