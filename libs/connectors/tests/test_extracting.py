"""An extract ends with the limits of its source, counted while it is written."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from datarecs_connectors.errors import SourceLimitError
from datarecs_connectors.extracting import write_extract
from datarecs_core.comparison.faults import ValueTooLargeError
from datarecs_core.comparison.scan import Scan, SourceSchema
from datarecs_core.jobs.definition import DEFAULT_LIMITS, Limits
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_testing.tables import a_table

SCAN = Scan(
    source="ledger",
    index=0,
    kind=SourceKind.POSTGRES,
    columns=(),
    schema=SourceSchema(columns=()),
    pin=a_table("ledger", "v text").pin,
)


def written(folder: Path, column: pa.Array, limits: Limits = DEFAULT_LIMITS) -> int:
    """Rows of an extract of one column."""
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    scan = replace(SCAN, limits=limits)
    made = write_extract(scan, [(batch, ())], str(folder), lambda _: None)
    assert made.extract is not None
    return made.extract.rows


@pytest.mark.case("P65")
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_a_value_of_16_mib_works_and_one_byte_more_is_refused(
    tmp_path: Path, kind: pa.DataType
) -> None:
    most = DEFAULT_LIMITS.max_value_bytes
    assert written(tmp_path, pa.array(["x" * most, None], kind)) == 2
    with pytest.raises(ValueTooLargeError, match="a value of 'v' has more than 16777216 bytes"):
        written(tmp_path, pa.array(["x", "x" * (most + 1)], kind))


@pytest.mark.case("P65")
def test_decoded_bytes_end_with_their_limit(tmp_path: Path) -> None:
    column = pa.array([1, 2, 3], pa.int64())
    assert written(tmp_path, column, Limits(max_bytes=column.nbytes)) == 3
    with pytest.raises(SourceLimitError, match="decoded bytes"):
        written(tmp_path, column, Limits(max_bytes=column.nbytes - 1))
