"""Limits of values and keys where Spark reads by itself: what `core.comparison.sizes` says in SQL.

A prepared row carries the name of a column whose value is too large, and fails the task that would
group it; an extract was measured when it was brought, a file never was. Apart from preparing
because a row is refused only once it is known to be looked at.
"""

import re
from collections.abc import Iterator

from pyspark.sql import DataFrame

from datarecs_core.comparison.planning.faults import KeyTooLargeError, ValueTooLargeError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.vocabulary import NullKeys
from datarecs_kernel.forms import ENCODED, FormKind
from datarecs_kernel.group_table import null_key
from datarecs_kernel.layout import Field, Layout
from datarecs_spark.canonical import invalid_size
from datarecs_spark.errors import raised
from datarecs_spark.prepare import OVER, SOURCE

_LARGE_FORMS = ENCODED | {FormKind.TEXT, FormKind.JSON, FormKind.BINARY}
_KEY = "key"
_TOLD = re.compile(r"datarecs:too-large:(\d+):(key|[0-9a-f]*)")


def limited(layout: Layout, rows: DataFrame) -> DataFrame:
    """Prepared rows that a stage is about to group; one above a limit fails its task.

    What `refused` makes of the failure says which source and column it was.
    """
    sizes = [size for field in layout.keys for size in _sizes(field)]
    limits = [scan.limits.max_key_bytes for scan in layout.stage.scans]
    most = str(limits[0])
    if len(set(limits)) > 1:
        most = f"element_at(array({', '.join(map(str, limits))}), {SOURCE} + 1)"
    large = f"{' + '.join(sizes)} > {most}" if sizes else "FALSE"
    told = f"concat('datarecs:too-large:', {SOURCE}, ':', coalesce({OVER}, '{_KEY}'))"
    is_large = f"({OVER} IS NOT NULL OR {large})"
    if layout.stage.null_keys is NullKeys.EXCLUDE:
        is_large = f"({is_large} AND NOT {null_key(layout.keys)})"
    checked = f"IF({is_large}, CAST(raise_error({told}) AS INT), {SOURCE}) AS {SOURCE}"
    kept = [label for label in rows.columns if label not in {SOURCE, OVER}]
    return rows.selectExpr(checked, *kept)


def _sizes(field: Field) -> Iterator[str]:
    if field.form.kind in _LARGE_FORMS:
        yield f"coalesce(octet_length({field.name}), 0)"
    if field.may_be_invalid:
        yield f"coalesce({invalid_size(field.payload)}, 0)"


def refused(failure: Exception, plan: StagePlan) -> DatarecsError | None:
    """Which limit a failure of Spark speaks of; None for any other failure."""
    for written in raised(failure):
        found = _TOLD.search(written)
        if found is None:
            continue
        scan = plan.scans[int(found[1])]
        if found[2] == _KEY:
            return KeyTooLargeError(source=scan.source, limit=scan.limits.max_key_bytes)
        column, limit = bytes.fromhex(found[2]).decode(), scan.limits.max_value_bytes
        return ValueTooLargeError(source=scan.source, column=column, limit=limit)
    return None
