from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.insight.changes import Change, Changes, changes

Row = tuple[str, int]


def between(before: list[Row], after: list[Row]) -> Changes[Row]:
    return changes(before, after, identity=lambda row: row[0], content=lambda row: row[1])


def test_breaks_are_new_gone_changed_or_as_they_were() -> None:
    changes = between([("a", 1), ("b", 2), ("c", 3)], [("b", 2), ("c", 4), ("d", 5)])
    assert (changes.new, changes.gone, changes.changed, changes.same) == (1, 1, 1, 1)
    assert [(each.change, each.before, each.after) for each in changes.rows] == [
        (Change.NEW, None, ("d", 5)),
        (Change.CHANGED, ("c", 3), ("c", 4)),
        (Change.GONE, ("a", 1), None),
    ]
    assert changes.any


def test_equal_runs_have_no_change() -> None:
    rows = [("a", 1), ("b", 2)]
    assert not between(rows, rows[::-1]).any
    assert not between([], []).any


breaks = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2)).map(
    lambda changes: list(changes.items())
)


@given(before=breaks, after=breaks)
def test_every_break_of_both_runs_is_reported_once(before: list[Row], after: list[Row]) -> None:
    changes = between(before, after)
    assert changes.new + changes.changed + changes.same == len(after)
    assert changes.gone + changes.changed + changes.same == len(before)
    back = between(after, before)
    assert (back.new, back.gone, back.changed) == (changes.gone, changes.new, changes.changed)
