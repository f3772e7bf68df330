"""`datarecs compare --engine auto` where the rows turn out to be larger than they seemed."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.stack.java import Java
from datarecs_testing.command_line import run_command

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_long_texts_that_do_not_fit_into_memory_go_to_spark(
    tmp_path: Path, java_runtime: Java
) -> None:
    """How long texts are is known once they are read, not before."""
    table = pa.table({"id": range(200), "note": ["x" * 600_000] * 200})
    for name in ("one.parquet", "two.parquet"):
        pq.write_table(table, tmp_path / name, compression="none", use_dictionary=False)
    words = ("compare", "one.parquet", "two.parquet", "--key", "id", "--memory", "1GiB")
    ended = run_command(java_runtime, *words, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    written = json.loads((tmp_path / "datarecs-compare/one-vs-two/run.json").read_text())
    execution = written["run"]["execution"]
    assert execution["engine"] == "spark"
    assert execution["engine_reason"] == "in memory it needs more than 0.5 GiB"
