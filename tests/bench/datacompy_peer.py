"""A process that compares by datacompy on Polars, as its users do, for `compare.py`.

It runs in an environment of its own, since datacompy wants an older Polars than the workspace. A
line of standard input names two Parquet files and where the differing rows go; a line of standard
output tells the counts.
"""

import json
import sys
from collections.abc import Sequence

import polars as pl
from datacompy import PolarsCompare  # type: ignore[import-not-found]  # not in the workspace


def compared(key: str, one: str, two: str, out: str) -> dict[str, int]:
    found = PolarsCompare(pl.read_parquet(one), pl.read_parquet(two), join_columns=key)
    differing = found.all_mismatch()
    differing.write_parquet(out, compression="zstd")
    return {
        "only_first": found.df1_unq_rows.height,
        "only_second": found.df2_unq_rows.height,
        "changed": sum(each["unequal_cnt"] for each in found.column_stats),
    }


def main(arguments: Sequence[str]) -> None:
    (key,) = arguments
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(compared(key, *json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
