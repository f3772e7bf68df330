"""Messages contain names of a header, but not values of a first row."""

import pytest

from datarecs_core.comparison.planning.header_names import names_for_messages


@pytest.mark.parametrize(
    "name", ["id", "order id", "Größe", "_load_ts", "a.b.c", "VAT (20%)", "k#1", "a,b"]
)
def test_a_name_is_shown(name: str) -> None:
    assert names_for_messages(["id", name]) == ["id", name]


@pytest.mark.parametrize(
    "value", ["4711", "2026-01-31", "-12.50", "ana@example.com", "c2VjcmV0=", "x" * 64, "", "a+b"]
)
def test_one_value_hides_the_whole_line(value: str) -> None:
    assert names_for_messages(["Smith", value]) == []
