"""`datarecs compare --engine auto` where the rows turn out to be larger than they seemed."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run
from datarecs_cli.stack.java import Java

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_long_texts_that_do_not_fit_into_memory_go_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found_java: Java
) -> None:
    """How long texts are is known once they are read, not before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATARECS_JAVA__HOME", str(found_java.home))
    table = pa.table({"id": range(200), "note": ["x" * 600_000] * 200})
    for name in ("one.parquet", "two.parquet"):
        pq.write_table(table, name, compression="none", use_dictionary=False)
    assert run(["compare", "one.parquet", "two.parquet", "--key", "id", "--memory", "1GiB"]) == 0
    written = json.loads(Path("datarecs-compare/one-vs-two/run.json").read_text())
    execution = written["run"]["execution"]
    assert execution["engine"] == "spark"
    assert execution["engine_reason"] == "in memory it needs more than 0.5 GiB"
