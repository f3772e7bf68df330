"""The oracle's reading of a digest stage: rows into fingerprints, fingerprints into buckets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from datarecs_core.comparison.oracle.grouping import Cell, Group, Grouped, Outside, Rows, group_rows
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.fingerprints import bucket_of, bucket_value, fingerprint_of
from datarecs_core.comparison.results.row_digests import row_values
from datarecs_core.comparison.values.canonical import NULL, encode_tuple, number


def group_buckets(stage: StagePlan, rows: Sequence[Rows], outside: Outside) -> Grouped:
    """One row per source and bucket that has any: the sum of its fingerprints.

    Raises:
        TooManyRowsError: a source has more than 100,000 rows.
        ConditionNotSupportedError: `where` needs an SQL engine.
    """
    if stage.hashed is None:
        raise TypeError(f"{stage.name} is not a digest stage")
    hashed = stage.hashed
    row_stage = replace(stage, dimensions=hashed.dimensions, measures=hashed.measures)
    grouped = group_rows(row_stage, rows, outside)
    sums: dict[tuple[int, int], list[int]] = {}
    for encoded, group in grouped.groups.items():
        bucket = bucket_of(outside.key, encoded)
        for index, source_rows in enumerate(group.rows):
            prints = sums.setdefault((bucket, index), [])
            prints.extend(
                fingerprint_of(
                    outside.key,
                    encoded,
                    row_values(row, hashed.measures, stage.sources[index]),
                )
                for row in source_rows
            )
    buckets = {
        encode_tuple((number(bucket),)): _bucket(stage, bucket, sums)
        for bucket in sorted({bucket for bucket, _ in sums})
    }
    return replace(grouped, groups=buckets)


def _bucket(stage: StagePlan, bucket: int, sums: Mapping[tuple[int, int], list[int]]) -> Group:
    prints_by_source = [sums.get((bucket, index), []) for index in range(len(stage.scans))]
    nothing = Cell(NULL, NULL)
    rows = []
    for prints in prints_by_source:
        value = bucket_value(len(prints), sum(prints))
        cells = (Cell(value, value), *(nothing for _ in stage.measures[1:]))
        rows.append([cells] if prints else [])
    return Group(
        (number(bucket),), rows, collapsed_from=[len(prints) for prints in prints_by_source]
    )
