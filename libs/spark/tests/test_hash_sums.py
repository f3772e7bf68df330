"""Sums of hashes and keys that repeat, against what plain Python says of the same hashes."""

from collections import Counter

import numpy as np
import pytest

from datarecs_spark import hash_sums
from datarecs_spark.hash_sums import Halves, Hashes, Sums, repeated

WEIGHT = 0x9E3779B97F4A7C15


@pytest.fixture(autouse=True)
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_sums, "_PIECE", 300)


def some_hashes(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False)


def test_rows_counted_in_other_sources_open_a_bucket_whatever_their_hashes() -> None:
    sums = Sums(1)
    zero = np.zeros(1, np.uint64)
    sums.add(zero, zero, zero, 7)
    assert sums.open().tolist() == [True, False]


def test_a_key_is_open_where_both_of_its_buckets_are() -> None:
    """Two changed keys open two buckets in each half; keys that lie across are closed."""
    keys = some_hashes(1000, 1)
    first, second, changed = keys * np.uint64(3), keys * np.uint64(5), keys[:2] ^ np.uint64(1)
    halves = Halves(4)
    halves.add(keys, first, second, WEIGHT)
    halves.add(keys, np.concatenate((changed, first[2:])), second, -WEIGHT % 2**64)
    upper, lower = keys >> np.uint64(60), keys & np.uint64(15)
    both = np.isin(upper, upper[:2]) & np.isin(lower, lower[:2])
    assert halves.are_open(keys).tolist() == both.tolist()
    assert both[:2].all()
    assert np.count_nonzero(both) < 50
    assert set(halves.open_upper()) == set(upper[:2])
    assert set(halves.open_lower()) == set(lower[:2])


@pytest.mark.parametrize("copies", [0, 1, 2, 255, 256, 257, 70_000])
@pytest.mark.parametrize("bits", [64, 20, 3])
def test_repeated_hashes_are_told_once_and_the_others_counted(bits: int, copies: int) -> None:
    """Also where many meet in a slot: hashes of few bits, and more copies than a byte counts."""
    hashes = some_hashes(5000, 2) << np.uint64(64 - bits)
    hashes = np.concatenate((hashes, hashes[:1].repeat(copies), hashes[10:20]))
    expected = Counter(hashes.tolist())
    once, again = repeated(hashes)
    assert once == sum(1 for times in expected.values() if times == 1)
    assert again.tolist() == sorted(each for each, times in expected.items() if times > 1)


def test_no_hash_is_no_group() -> None:
    once, again = repeated(np.zeros(0, np.uint64))
    assert (once, len(again)) == (0, 0)
