"""Free text of the outside, as it may be stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.runs.wording import storable_text


@pytest.mark.parametrize(
    ("text", "stored_text"),
    [("fine", "fine"), ("a\0b", "a�b"), ("\ud800", "�"), ("größe ✓", "größe ✓")],
)
def test_text_is_reported_as_it_can_be_stored(text: str, stored_text: str) -> None:
    assert storable_text(text) == stored_text


@given(st.text(max_size=3000))
def test_every_report_can_be_stored(text: str) -> None:
    stored_text = storable_text(text)
    assert len(stored_text) <= 2000
    assert "\0" not in stored_text
    stored_text.encode()
