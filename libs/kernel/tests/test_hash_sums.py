"""Sums of hashes and keys that repeat, against what plain Python says of the same hashes."""

from collections import Counter

import numpy as np
import pytest

from datarecs_kernel.hash_sums import Hashes, Sums, repeated, weights_for

WEIGHT = 0x9E3779B97F4A7C15


def some_hashes(count: int, seed: int) -> Hashes:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64, endpoint=False)


def test_a_bucket_is_open_while_its_rows_are_not_the_same_in_all_sources() -> None:
    keys = some_hashes(1000, 1)
    rows = keys * np.uint64(3)
    sums = Sums(4)
    sums.add(keys, rows, WEIGHT)
    assert sums.open().all()
    sums.add(keys[1:], rows[1:], -WEIGHT % 2**64)
    assert np.flatnonzero(sums.open()).tolist() == sums.bucket(keys[:1]).tolist()
    sums.add(keys[:1], rows[:1] ^ np.uint64(1), -WEIGHT % 2**64)
    assert np.flatnonzero(sums.open()).tolist() == sums.bucket(keys[:1]).tolist()


@pytest.mark.parametrize("copies", [0, 1, 2, 255, 256, 257, 70_000])
@pytest.mark.parametrize("bits", [64, 20, 3])
def test_repeated_hashes_are_reported_once_and_the_others_counted(bits: int, copies: int) -> None:
    hashes = some_hashes(5000, 2) << np.uint64(64 - bits)
    hashes = np.concatenate((hashes, hashes[:1].repeat(copies), hashes[10:20]))
    expected = Counter(hashes.tolist())
    once, again = repeated(np.sort(hashes))
    assert once == sum(1 for times in expected.values() if times == 1)
    assert again.tolist() == sorted(each for each, times in expected.items() if times > 1)


def test_no_hash_is_no_group() -> None:
    once, again = repeated(np.zeros(0, np.uint64))
    assert (once, len(again)) == (0, 0)


@pytest.mark.parametrize("sources", [2, 3, 10])
def test_weights_are_odd_but_for_the_last_and_add_up_to_nothing(sources: int) -> None:
    weights = weights_for(sources, [WEIGHT + at for at in range(sources)])
    assert len(weights) == sources
    assert all(each % 2 for each in weights[:-1])
    assert sum(weights) % 2**64 == 0


def test_every_bit_of_a_draw_but_the_last_is_in_its_weight() -> None:
    draws = [WEIGHT, 2**64 - 2, 2**64 + 6, 1]
    assert weights_for(4, draws)[:-1] == (WEIGHT, 2**64 - 1, 7)
