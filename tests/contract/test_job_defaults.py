"""The defaults of a job are those that the spec promises, in the schema and in the connectors.

The hash of a stored job excludes fields with default values, so another default would change the
meaning of a job with the same hash: it needs a new apiVersion.
"""

from collections.abc import Mapping

import pytest
from pydantic import BaseModel

from datarecs_connectors.csv_options import CsvOptions
from datarecs_connectors.json_lines import JsonOptions
from datarecs_connectors.parquet import ParquetOptions
from datarecs_connectors.postgres import BATCH_ROWS
from datarecs_core.resources.resource import Kind
from datarecs_testing.fields.schema_fields import fields_of

DEFAULTS = {
    one.path.removeprefix("spec."): one.schema["default"]
    for one in fields_of(Kind.RECONCILIATION_JOB)
    if "default" in one.schema
}
PROMISED: Mapping[str, object] = {
    "timezone": "UTC",
    "normalize.strings.trim": "none",
    "normalize.strings.case": "exact",
    "normalize.strings.unicode": "none",
    "normalize.strings.empty": "keep",
    "normalize.strings.null": "keep",
    "normalize.numbers.nan": "equal",
    "normalize.numbers.float32": "exact",
    "normalize.numbers.round": "none",
    "normalize.numbers.null": "keep",
    "normalize.timestamps.precision": "exact",
    "normalize.timestamps.rounding": "truncate",
    "normalize.json.arrays": "ordered",
    "normalize.nulls.keys": "group",
    "duplicates": "multiset",
    "empty": "warn",
    "schema.mode": "strict",
    "schema.order": False,
    "schema.nullability": False,
    "results.breaks.max_rows": 1_000_000,
    "results.breaks.sample_per_class": 50,
    "results.breaks.retention": "P30D",
    "results.breaks.deltas": True,
    "results.reports": ["html", "json"],
    "execution.engine": "spark",
    "execution.proof": "counts",
    "execution.strategy": "auto",
    "execution.extract": "auto",
    "execution.memory": "2GiB",
    "execution.spill": "20GiB",
    "execution.partitions": "auto",
    "execution.deadline": "PT1H",
    "execution.resume": True,
    "execution.attempts": 3,
    "execution.priority": 5,
}
"""Of the spec's job with everything in it."""
OF_A_SOURCE: Mapping[str, object] = {
    "limits.max_rows": 200_000_000,
    "limits.max_bytes": "100GiB",
    "limits.statement_timeout": "PT15M",
    "limits.max_connections": 4,
    "partition.by": "auto",
}
OF_A_STAGE: Mapping[str, object] = {
    "compare_to": "reference",
    "on_unmatched": "continue",
    "confirm.attempts": 2,
    "confirm.max_keys": 100_000,
    "scope.only": "differing",
    "measures[].combine": "all",
    "measures[].bound": "inclusive",
    "measures[].map_strict": False,
}
OPEN = {
    "schema", "formats", "delimiter", "null_words", "date_format", "timestamp_format", "skip",
}  # fmt: skip
"""Options without a default value: their absence is a separate rule."""
OPTIONS: Mapping[str, type[BaseModel]] = {
    "csv": CsvOptions,
    "json": JsonOptions,
    "parquet": ParquetOptions,
}


def test_a_job_has_the_promised_defaults() -> None:
    shown = {path: one for path, one in DEFAULTS.items() if "[]" not in path and "*" not in path}
    texts = {"description", "owner", "metadata.namespace"}
    assert {path: one for path, one in shown.items() if path not in texts} == PROMISED


@pytest.mark.parametrize(
    ("part", "promised"), [("sources", OF_A_SOURCE), ("stages", OF_A_STAGE)], ids=str
)
def test_every_kind_and_type_has_the_promised_defaults(
    part: str, promised: Mapping[str, object]
) -> None:
    defaults: dict[str, set[object]] = {}
    for path, value in DEFAULTS.items():
        head, _, name = path.partition(">.")
        if head.startswith(part):
            defaults.setdefault(name, set()).add(value if not isinstance(value, list) else None)
    assert {name: defaults[name] for name in promised} == {
        name: {value} for name, value in promised.items()
    }


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_options_of_files_have_the_defaults_of_their_reader(kind: str) -> None:
    start = f"sources[]<{kind}>.options."
    shown = {
        path.removeprefix(start): value
        for path, value in DEFAULTS.items()
        if path.startswith(start)
    }
    read = OPTIONS[kind].model_validate({}).model_dump(by_alias=True)
    assert {**read, **shown} == read
    assert read.keys() - shown.keys() <= OPEN


def test_the_batches_of_a_database_have_the_promised_size() -> None:
    assert DEFAULTS["sources[]<postgres>.options.fetch_size"] == BATCH_ROWS == 10_000
