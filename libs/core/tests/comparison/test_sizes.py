"""What a value and a key weigh: their texts and bytes, and nothing else."""

from decimal import Decimal

import pytest

from datarecs_core.comparison.values.canonical import NULL, Tag, Value, invalid, number, text
from datarecs_core.comparison.values.sizes import size_of


@pytest.mark.case("P65")
@pytest.mark.parametrize(
    ("value", "size"),
    [
        (NULL, 0),
        (number(Decimal(10**37)), 0),
        (text("a\u20ac"), 4),
        (Value(Tag.JSON, '{"a":1}'), 7),
        (Value(Tag.BINARY, b"\x00\xff"), 2),
        (Value(Tag.UUID, bytes(16)), 0),
        (Value(Tag.ARRAY, (text("ab"), NULL)), 2 + 7 + 5),
        (invalid("a source with a long name", b"\xff"), 1),
    ],
)
def test_texts_and_bytes_have_a_size(value: Value, size: int) -> None:
    assert size_of(value) == size
