"""Core's encoding against the published vectors of c1: it covers all of them."""

from collections.abc import Sequence

import pytest

from datarecs_core.comparison.values.canonical import Value, canonical_text, encode, encode_tuple
from datarecs_core.comparison.values.encoded import decode
from datarecs_core.comparison.values.translating import canonical
from datarecs_testing.conformance.canonical import (
    CanonicalConformance,
    Vector,
    Written,
    published,
)


class Core:
    """CanonicalWriter over `translating.canonical` and `canonical.encode`."""

    def covers(self, vector: Vector) -> bool:  # noqa: ARG002  all of them
        return True

    def write(self, vectors: Sequence[Vector]) -> Sequence[Written]:
        return [Written(canonical_text(value), encode(value)) for value in map(_value, vectors)]

    def write_tuple(self, members: Sequence[Vector]) -> bytes:
        return encode_tuple([_value(one) for one in members])


def _value(vector: Vector) -> Value:
    return canonical(vector.plain, vector.type, published().source)


class TestCanonical(CanonicalConformance):
    @pytest.fixture
    def writer(self) -> Core:
        return Core()


@pytest.mark.parametrize("vector", published().vectors, ids=lambda vector: vector.name)
def test_every_published_value_is_decoded_from_its_encoding(vector: Vector) -> None:
    value = decode(vector.encoding)
    assert encode(value) == vector.encoding
    assert canonical_text(value) == vector.text
