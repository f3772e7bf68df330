"""`proof: rows`: every source's rows as keyed sums per bucket, sealed by one root.

Leaves are sums, so any split of rows gives the same; the root is a tree of RFC 6962, so that one
leaf can be shown to belong to a run without the others. Separate from `fingerprints`, which
computes the bytes of one row: this module decides what counts as a row of a stage, and what the
root covers.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from datarecs_core.comparison.oracle.grouping import Cell, Group
from datarecs_core.comparison.planning.plan import MeasurePlan, StagePlan
from datarecs_core.comparison.results.fingerprints import (
    COUNT_BYTES,
    FINGERPRINT_BYTES,
    NAN,
    bucket_of,
    fingerprint_of,
    read_bucket_value,
)
from datarecs_core.comparison.results.results import BucketSum, StageResults
from datarecs_core.comparison.values.canonical import encode, encode_tuple, invalid, text
from datarecs_core.jobs.vocabulary import NanRule, StageType

FILE = "digests.parquet"
_LEAF, _NODE = b"\x00", b"\x01"
_BUCKET_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Leaf:
    """What one source has in one bucket of one stage; leaves are in the order of the fields."""

    stage: str
    source: str
    bucket: int
    """0 to 4,095."""
    rows: int
    """1 or more."""
    total: int
    """Fingerprints modulo 2^128."""

    def hashed(self) -> bytes:
        """Equal exactly for equal leaves: all fields have a length or a fixed width."""
        return hashlib.sha256(
            _LEAF
            + encode(text(self.stage))
            + encode(text(self.source))
            + self.bucket.to_bytes(_BUCKET_BYTES)
            + self.rows.to_bytes(COUNT_BYTES)
            + self.total.to_bytes(FINGERPRINT_BYTES)
        ).digest()


def merkle_root(leaves: Iterable[Leaf]) -> str:
    """`sha256:` and the root over the sorted leaves; of none the hash of no bytes (RFC 6962)."""
    level = [leaf.hashed() for leaf in sorted(leaves)]
    if not level:
        return f"sha256:{hashlib.sha256(b'').hexdigest()}"
    while len(level) > 1:
        # Pairs from the left, an odd last one moves up: the split at the largest power of two.
        pairs = zip(level[::2], level[1::2], strict=False)
        last = level[-1:] if len(level) % 2 else []
        level = [*(hashlib.sha256(_NODE + a + b).digest() for a, b in pairs), *last]
    return f"sha256:{level[0].hex()}"


def leaves_of(results: StageResults, sources: Sequence[str]) -> tuple[Leaf, ...]:
    """The leaves of an executed stage."""
    return tuple(
        Leaf(
            stage=results.stage,
            source=sources[each.source],
            bucket=each.bucket,
            rows=each.rows,
            total=each.total,
        )
        for each in results.digests
    )


def expected_rows(kind: StageType, results: StageResults) -> tuple[int, ...]:
    """How many rows the leaves of each source of a stage have in all."""
    if kind is StageType.DIGEST or results.rows is not None:
        return tuple(each.grouped for each in results.closure)
    return results.counts.groups_by_source


def bucket_sums(stage: StagePlan, groups: Mapping[bytes, Group], key: bytes) -> list[BucketSum]:
    """The oracle's sums: of source rows, or of the results of groups with functions.

    Args:
        stage: with its measures in the order of the cells.
        groups: by encoded key, collapsed where the stage requires it; of a digest stage buckets.
        key: the tenant's.
    """
    if stage.type is StageType.DIGEST:
        return _of_buckets(groups)
    columns = sorted((each for each in stage.measures if each.comparable), key=lambda one: one.name)
    by_bucket: dict[tuple[int, int], list[int]] = {}
    for encoded, group in groups.items():
        bucket = bucket_of(key, encoded)
        for index, rows in enumerate(group.rows):
            for row in rows:
                values = row_values(row, columns, stage.sources[index])
                by_bucket.setdefault((index, bucket), []).append(
                    fingerprint_of(key, encoded, values)
                )
    return [
        BucketSum(
            source=index,
            bucket=bucket,
            rows=len(prints),
            total=sum(prints) % 2 ** (8 * FINGERPRINT_BYTES),
        )
        for (index, bucket), prints in sorted(by_bucket.items())
    ]


def row_values(row: Sequence[Cell], columns: Sequence[MeasurePlan], source: str) -> bytes:
    """The value tuple of a row: columns by name; an unequal NaN differs in each source."""
    values = [(plan, row[plan.index].value) for plan in columns]
    return encode_tuple(
        [
            invalid(source, NAN) if value.is_nan and plan.rules.nan is NanRule.UNEQUAL else value
            for plan, value in values
        ]
    )


def _of_buckets(groups: Mapping[bytes, Group]) -> list[BucketSum]:
    """Of a digest stage: what its buckets already are."""
    sums = []
    for group in groups.values():
        bucket = int(str(group.key[0].content))
        for index, rows in enumerate(group.rows):
            for row in rows:
                count, total = read_bucket_value(row[0].value)
                sums.append(BucketSum(source=index, bucket=bucket, rows=count, total=total))
    return sums
