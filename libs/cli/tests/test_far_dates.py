"""Dates and times that Python has no value for, in keys of rows that differ."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run
from datarecs_testing.command_line import run_command

FAR = {
    "day": (pa.date32(), -1_000_000, 4_000_000, "-0768-02-04", "+12921-08-18"),
    "at": (
        pa.timestamp("us", "UTC"),
        -(10**17),
        4 * 10**17,
        "-1199-02-15T14:13:20Z",
        "+14645-06-30T15:06:40Z",
    ),
}
ENGINES = ["kernel", "reference", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.mark.case("P60")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("key", FAR)
def test_every_engine_writes_a_difference_under_a_far_date(
    engine: str,
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    kind, early, late, *texts = FAR[key]
    for name, value in (("one", 1), ("two", 2)):
        table = pa.table({key: pa.array([early, late, 0], kind), "v": [value, value, 1]})
        pq.write_table(table, f"{name}.parquet")
    command = ["compare", "one.parquet", "two.parquet", "--key", key, "--engine", engine]
    if engine == "spark":  # in a process of its own, whose end takes the session with it
        java = request.getfixturevalue("java_runtime")
        ended = run_command(java, *command, "--out", "out", cwd=tmp_path)
        assert ended.returncode == 1, ended.stderr
    else:
        assert run([*command, "--out", "out"]) == 1, capsys.readouterr().err
    assert run(["export", "out", "--format", "parquet", "--out", "rows.parquet"]) == 0
    rows = pq.read_table("rows.parquet").to_pylist()
    assert sorted(row[f"key.{key}"] for row in rows) == sorted(texts)
    assert {(row["value.one"], row["value.two"]) for row in rows} == {("1", "2")}
