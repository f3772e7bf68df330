"""Work items of the scan kernel over files made here, without a plan or Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.comparison.expressions.exact_conditions import exact_condition
from datarecs_core.jobs.types import parse_type
from datarecs_kernel.forms import BOOL, DOUBLE, INTEGER, TEXT, Form, FormKind, decimal
from datarecs_kernel.hash_sums import weights_for
from datarecs_spark.kernel_conditions import kernel_condition
from datarecs_spark.kernel_work import (
    KernelColumn,
    KernelCondition,
    KernelSource,
    KernelTask,
    kept_file,
    quoted,
)

SALTS = (4_611_686_018_427_387_847, 1_152_921_504_606_846_883, 288_230_376_151_711_717)
DRAWS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
_BUCKET_BITS = 12
FORMS = {
    pa.int64(): INTEGER,
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.float64(): DOUBLE,
    pa.bool_(): BOOL,
    pa.date32(): Form(kind=FormKind.DATE),
    pa.decimal128(12, 2): decimal(12, 2),
}


def a_column(field: pa.Field) -> KernelColumn:
    meeting = quoted(field.name)
    salted = f"('datarecs' || {meeting})" if FORMS[field.type] == TEXT else meeting
    form = FORMS[field.type]
    return KernelColumn(
        name=field.name, physical=field.name, meeting=meeting, salted=salted, form=form
    )


def a_source(path: Path, rows: Mapping[str, Any]) -> KernelSource:
    """Rows as a file; the first column is the key, texts are salted."""
    table = pa.table(rows)
    pq.write_table(table, path)
    columns = [a_column(field) for field in table.schema]
    return KernelSource(
        files=(str(path),), rows=table.num_rows, keys=(columns[0],), values=tuple(columns[1:])
    )


def a_task(folder: Path, *tables: Mapping[str, Any], **fields: Any) -> KernelTask:  # noqa: ANN401 - any field of KernelTask
    (folder / "kept").mkdir()
    sources = tuple(a_source(folder / f"{at}.parquet", rows) for at, rows in enumerate(tables))
    given: dict[str, Any] = {
        "totals": (),
        "bucket_bits": _BUCKET_BITS,
        "threads": 1,
        "memory_bytes": 2**28,
    }
    return KernelTask(
        sources=sources,
        salts=SALTS,
        weights=weights_for(len(sources), DRAWS),
        directory=str(folder / "kept"),
        **{**given, **fields},
    )


def a_condition(written: str, **types: str) -> KernelCondition:
    """Over columns of these types."""
    kinds = {name: parse_type(kind) for name, kind in types.items()}
    return kernel_condition(exact_condition(written, kinds), {})


def kept(task: KernelTask, index: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(Path(task.directory) / kept_file(index)).to_pylist()
    return found
