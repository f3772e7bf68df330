import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.captures.sketches import SKETCH_HASHES, Sketch, united

HASHES = st.sets(st.integers(0, 2**64 - 1), max_size=50)


def a_sketch(hashes: set[int], function: str = "duckdb-2.0.0", *, is_exact: bool = True) -> Sketch:
    return Sketch(function=function, hashes=sorted(hashes), is_exact=is_exact)


@given(HASHES, st.booleans())
def test_a_sketch_is_read_back_from_its_bytes(hashes: set[int], is_exact: bool) -> None:
    sketch = a_sketch(hashes, is_exact=is_exact)
    read = Sketch.from_bytes(sketch.to_bytes(), sketch.method)
    assert (read.function, list(read.hashes), read.is_exact) == (
        sketch.function,
        sketch.hashes,
        is_exact,
    )


@pytest.mark.parametrize("raw", [b"", b"duckdb-2.0.0", b"duckdb-2.0.0\0\0\0\0" + b"1234567"])
def test_other_bytes_are_no_sketch(raw: bytes) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Sketch.from_bytes(raw, "exact")


@given(HASHES, HASHES)
def test_a_union_has_the_hashes_of_both(one: set[int], other: set[int]) -> None:
    union = united([a_sketch(one), a_sketch(other)])
    if not one | other:
        assert union is None
    else:
        assert union == a_sketch(one | other)
        assert union.distinct == len(one | other)


def test_a_large_union_is_an_estimate_by_its_smallest_hashes() -> None:
    step = 2**64 // 4000
    one, other = ({at * step for at in range(first, 4000, 2)} for first in (0, 1))
    union = united([a_sketch(one), a_sketch(other)])
    assert union is not None
    assert list(union.hashes) == [at * step for at in range(SKETCH_HASHES)]
    assert union.method == "kmv-2048 duckdb-2.0.0"
    assert union.distinct == pytest.approx(4000, rel=0.01)
    again = united([union, a_sketch({5})])
    assert again is not None
    assert not again.is_exact


def test_hashes_of_two_functions_are_never_united() -> None:
    assert united([a_sketch({1}), a_sketch({1}, "duckdb-2.0.1")]) is None
