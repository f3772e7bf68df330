"""Label selectors: each form, what it selects, and what a wrong one is refused with."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.resources.selector import SelectorError, parse_selector

LABELS = {"team": "finance", "env": "prod", "example.com/tier": "1", "empty": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("  ", True),
        ("team=finance", True),
        ("team == finance", True),
        ("team=hr", False),
        ("missing=x", False),
        ("team!=hr", True),
        ("team != finance", False),
        ("missing!=x", True),
        ("team in (hr, finance)", True),
        ("team in (hr)", False),
        ("missing in (x)", False),
        ("team notin (hr,it)", True),
        ("team notin (finance)", False),
        ("missing notin (x)", True),
        ("team", True),
        ("missing", False),
        ("!missing", True),
        ("! team", False),
        ("example.com/tier=1", True),
        ("empty=", True),
        ("empty in (x,)", True),
        ("team=finance,env in (prod, test),!missing", True),
        ("team=finance,env=test", False),
    ],
)
def test_each_form_selects_by_labels(text: str, *, expected: bool) -> None:
    assert parse_selector(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("team=finance,", "extra comma"),
        ("team=a b", "'team=a b'"),
        ("team in finance", "'team in finance'"),
        ("team in (a", "'team in (a'"),
        ("team in (a!)", "'a!'"),
        ("=x", "'=x'"),
        ("team>3", "'team>3'"),
        (f"{64 * 'k'}=x", "not understood"),
        (f"k={64 * 'v'}", "not understood"),
        (",".join(["a"] * 17), "at most 16"),
        (f"k in ({','.join(['v'] * 51)})", "at most 50"),
        (f"k={1024 * 'v'}", "at most 1024"),
    ],
)
def test_a_wrong_selector_names_its_part_and_the_forms(text: str, part: str) -> None:
    with pytest.raises(SelectorError) as refused:
        parse_selector(text)
    assert part in str(refused.value)
    assert "key in (a, b)" in refused.value.fix


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SelectorError):
        parse_selector(text).matches(LABELS)
