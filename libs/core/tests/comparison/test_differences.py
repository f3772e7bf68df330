import hashlib
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.planning.plan import Caps
from datarecs_core.comparison.results.differences import (
    COMPARE_KEY,
    RankedDifference,
    break_id,
    choose_rows,
    delta_percent,
    difference_set,
    digest,
    digest_text,
    group_rank,
    masked,
    samples,
)
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    encode_tuple,
    invalid,
    number,
    text,
)
from datarecs_core.jobs.vocabulary import MaskRule

D = Decimal
JOB = UUID(int=1)
GROUP = encode_tuple([number(1)])


def an_id(**changes: Any) -> str:  # noqa: ANN401 - any part of an id
    parts = {"job_uid": JOB, "stage": "rows", "measure": "amount", "group": GROUP, **changes}
    return break_id(COMPARE_KEY, **parts)


def a_difference(number_: int, delta: str | None = None, **changes: Any) -> Difference:  # noqa: ANN401 - any field
    plain = Difference(
        break_id=f"{number_:026}",
        stage="rows",
        measure="amount",
        outcome=Outcome.BREAK,
        difference_class=DifferenceClass.OUTSIDE,
        presence=3,
        odd_one_out=None,
        key=("1",),
        key_encoded=GROUP,
        key_hash=b"0" * 16,
        values=(("one", "1"), ("two", None)),
        deltas=() if delta is None else (("two", D(delta)),),
    )
    return replace(plain, **changes)


@pytest.mark.case("F16")
def test_a_break_id_depends_on_its_five_parts_and_on_nothing_else() -> None:
    assert an_id() == an_id()
    assert len(an_id()) == 26
    assert set(an_id()) <= set("abcdefghijklmnopqrstuvwxyz234567")
    others = [
        an_id(job_uid=UUID(int=2)),
        an_id(stage="row"),
        an_id(measure="$presence"),
        an_id(group=encode_tuple([number(2)])),
        an_id(stage="rowsa", measure="mount"),
        break_id(b"other", job_uid=JOB, stage="rows", measure="amount", group=GROUP),
    ]
    assert len({an_id(), *others}) == 7


def test_break_ids_stay_what_they_are_for_ever() -> None:
    assert hashlib.sha256(b"datarecs compare c1").digest() == COMPARE_KEY
    assert an_id() == "66snkmlqbuznixuij7eleozsr6"


@pytest.mark.case("P64")
def test_masks_hide_values_and_leave_null() -> None:
    assert masked(COMPARE_KEY, None, "x") == "x"
    assert masked(COMPARE_KEY, MaskRule.REDACT, "x") == "***"
    assert masked(COMPARE_KEY, MaskRule.HASH, None) is None
    one, other = (masked(key, MaskRule.HASH, "x") for key in (COMPARE_KEY, b"other"))
    assert one != other
    assert str(one).startswith("h:")
    assert len(str(one)) == 18


@pytest.mark.parametrize(
    ("delta", "base", "percent"),
    [
        ("1", "3", "33.333333"),
        ("-1", "3", "-33.333333"),
        ("1", "-3", "33.333333"),
        ("2", "3", "66.666666"),
        ("0", "3", "0"),
        ("0.0000000001", "1", "0"),
    ],
)
def test_percentages_are_cut_to_six_places(delta: str, base: str, percent: str) -> None:
    assert delta_percent(D(delta), D(base)) == D(percent)


def test_there_is_no_percentage_of_nothing() -> None:
    assert delta_percent(D(1), D(0)) is None
    assert delta_percent(D(1), None) is None


@pytest.mark.case("F12")
@given(st.permutations([a_difference(n, str(n)) for n in range(6)]))
def test_a_digest_does_not_depend_on_order(rows: list[Difference]) -> None:
    assert digest(rows) == digest(sorted(rows, key=lambda row: row.break_id))


def test_a_digest_sees_every_field_but_the_place() -> None:
    row = a_difference(1, "1")
    assert digest([row]) == digest([replace(row, locator=(("one", "file 1"),))])
    changes: list[dict[str, Any]] = [
        {"break_id": "x"},
        {"stage": "x"},
        {"measure": "x"},
        {"outcome": Outcome.WITHIN},
        {"difference_class": DifferenceClass.PRECISION},
        {"presence": 1},
        {"odd_one_out": "one"},
        {"key_encoded": b"x"},
        {"values": (("one", "1"), ("two", ""))},
        {"raw_values": (("one", "1"),)},
        {"deltas": (("two", D("1.1")),)},
    ]
    digests = {digest([replace(row, **change)]) for change in changes}
    assert len(digests - {digest([row])}) == len(changes)


def test_two_equal_rows_do_not_cancel() -> None:
    row = a_difference(1)
    assert digest([row, row]) not in (digest([]), digest([row]))
    assert digest_text(2**256) == digest([]) == f"sha256:{'0' * 64}"


def ranked(rows: list[Difference]) -> list[RankedDifference]:
    """Ranks are the numbers that the ids hold, the other way round."""
    return [RankedDifference(1000 - int(row.break_id), row) for row in rows]


@pytest.mark.case("P61")
def test_of_too_many_the_largest_of_each_measure_come_first_then_the_smallest_ranks() -> None:
    amounts = [a_difference(n, str(n)) for n in range(10)]
    missing = [a_difference(20 + n, measure="$presence") for n in range(5)]
    other = [a_difference(40 + n, str(-n), measure="other") for n in range(5)]
    caps = Caps(max_rows=7, largest_per_measure=2)
    stored, truncated = choose_rows(ranked([*missing, *other, *amounts]), caps)
    assert truncated
    assert [int(row.break_id) for row in stored] == [8, 9, 40, 41, 42, 43, 44]
    tight, _ = choose_rows(ranked([*other, *amounts]), Caps(max_rows=3))
    assert [int(row.break_id) for row in tight] == [9, 43, 44]
    assert choose_rows(ranked(amounts), Caps(max_rows=10)) == (tuple(amounts), False)


@pytest.mark.case("P61")
def test_of_equal_sizes_the_smallest_ranks_are_stored() -> None:
    rows = [a_difference(n, "1.00") for n in range(9)]
    stored, _ = choose_rows(ranked(rows), Caps(max_rows=2))
    assert [int(row.break_id) for row in stored] == [7, 8]


def test_a_group_with_two_measures_lists_them_in_the_order_of_their_names() -> None:
    rows = [a_difference(1, measure="b"), a_difference(2, measure="a"), a_difference(3)]
    stored, _ = choose_rows([RankedDifference(5, row) for row in rows], Caps(max_rows=2))
    assert [row.measure for row in stored] == ["a", "amount"]


def test_ranks_stay_what_they_are_for_ever() -> None:
    key = (text("é|"), number(D("1.50")), NULL, Value(Tag.BOOL, True))  # noqa: FBT003 - a value
    assert group_rank(key) == 4_721_275_709_796_833_339
    assert group_rank((number(D("1.5")),)) == group_rank((number(D("1.500")),))


def test_no_two_keys_share_the_text_behind_their_rank() -> None:
    keys = [
        (),
        (NULL,),
        (text(""),),
        (text("~"),),
        (text("a"), text("bc")),
        (text("ab"), text("c")),
        (text("1:a1:b"),),
        (number(1), number(11)),
        (number(11), number(1)),
        (text("1"),),
        (number(1),),
        (Value(Tag.BINARY, b"\x01"),),
        (Value(Tag.DATE, D(1)), NULL),
        (NULL, Value(Tag.DATE, D(1))),
        (invalid("one", b"\x01"),),
        (invalid("two", b"\x01"),),
        (Value(Tag.ARRAY, (number(1),)),),
    ]
    assert len({group_rank(key) for key in keys}) == len(keys)


def test_samples_show_the_largest_and_the_smallest_ids_of_each_class() -> None:
    rows = [a_difference(n, str(n)) for n in range(10)]
    rows += [a_difference(n + 10, difference_class=DifferenceClass.NULL_MISMATCH) for n in range(4)]
    shown = samples(rows, 2)
    assert [int(row.break_id) for row in shown] == [10, 11, 9, 8, 1, 0]


def test_within_rows_are_stored_only_while_deltas_are() -> None:
    rows = [a_difference(1), a_difference(2, outcome=Outcome.WITHIN)]
    entries, stored = difference_set(ranked(rows), Caps())
    assert (entries.rows, len(stored)) == (2, 2)
    fewer, stored = difference_set(ranked(rows), Caps(deltas=False))
    assert (fewer.rows, fewer.truncated) == (1, False)
    assert stored == (rows[0],)
