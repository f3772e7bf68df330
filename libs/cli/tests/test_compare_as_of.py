"""`datarecs compare --as-of`: an Iceberg table as it was, and what cannot be read so."""

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from datarecs_cli.main import run

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
FILE = "- {name: exports, kind: parquet, path: exports.parquet}"
TAGGED = """- name: exports
      kind: iceberg
      connection: lake
      relation: books.exports
      snapshot: {ref: as-loaded}"""
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A table at its tag, compared with the table now: it has been corrected in between."""
    runpy.run_path(str(EXAMPLES / "lake_data.py"))["main"](tmp_path)
    file = tmp_path / "lake.recon.yaml"
    text = file.read_text().replace("      snapshot: {ref: as-loaded}\n", "")
    file.write_text(text.replace(FILE, TAGGED))
    return file


@pytest.fixture
def loaded_at(job: Path) -> str:
    """The time of the commit with the tag."""
    lake = job.parent / "lake"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    milliseconds = catalog.load_table("books.exports").history()[1].timestamp_ms
    catalog.close()
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def call(shown: Shown, *words: str) -> tuple[int, str]:
    code = run([*words, "--quiet"])
    return code, " ".join("".join(shown.readouterr()).split())


def compare(job: Path, shown: Shown, *flags: str) -> tuple[int, str]:
    return call(shown, "compare", str(job), "--out", str(job.parent / "out"), *flags)


def written(job: Path) -> Any:  # noqa: ANN401  run.json
    return json.loads((job.parent / "out/run.json").read_bytes())


def test_a_table_is_read_as_it_was(job: Path, capsys: Shown, loaded_at: str) -> None:
    code, output = compare(job, capsys)
    assert (code, "UNMATCHED" in output) == (1, True)
    code, output = compare(job, capsys, "--as-of", loaded_at)
    assert (code, "MATCHED 1,005 of 1,005" in output) == (0, True)
    document = written(job)
    tagged, table = document["proof"]["sources"]
    assert table["pin"]["snapshot_id"] == tagged["pin"]["snapshot_id"]
    assert f"--as-of {loaded_at}" in str(document["run"])
    code, output = call(capsys, "plan", str(job), "--as-of", loaded_at)
    assert (code, f"table snapshot {table['pin']['snapshot_id']}" in output) == (0, True)


def test_the_flag_is_the_field_of_the_job(job: Path, capsys: Shown, loaded_at: str) -> None:
    compare(job, capsys, "--as-of", loaded_at)
    by_flag = written(job)["proof"]["spec_hash"]
    lines = job.read_text().replace(
        "  stages:", f"      snapshot: {{as_of: '{loaded_at}'}}\n  stages:"
    )
    job.write_text(lines)
    compare(job, capsys)
    assert written(job)["proof"]["spec_hash"] == by_flag


def test_a_table_that_is_newer_is_an_error_and_no_verdict(job: Path, capsys: Shown) -> None:
    code, output = compare(job, capsys, "--as-of", "1999-12-31T00:00:00Z")
    assert (code, "no snapshot at 1999-12-31" in output) == (3, True)


@pytest.mark.parametrize("time", ["2026-01-31", "2026-01-31T12:00:00", "yesterday"])
def test_a_time_needs_its_offset(job: Path, capsys: Shown, time: str) -> None:
    code, output = compare(job, capsys, "--as-of", time)
    assert (code, f"--as-of {time}: not a time with its offset" in output) == (2, True)


@pytest.mark.parametrize("time", ["2096-01-01T00:00:00Z", "9999-12-31T23:59:59.9-14:00"])
def test_a_time_that_is_still_to_come_is_refused(job: Path, capsys: Shown, time: str) -> None:
    code, output = compare(job, capsys, "--as-of", time)
    assert (code, f"--as-of {time} is still to come: it is 20" in output) == (2, True)
    line = f"      snapshot: {{as_of: '{time}'}}\n  stages:"
    job.write_text(job.read_text().replace("  stages:", line))
    code, output = compare(job, capsys)
    assert (code, "snapshot.as_of is still to come" in output) == (3, True)


def test_a_flag_without_effect_is_refused(job: Path, capsys: Shown) -> None:
    job.write_text(job.read_text().replace("  stages:", "      snapshot: {ref: main}\n  stages:"))
    code, output = compare(job, capsys, "--as-of", "2026-01-31T12:00:00Z")
    assert (code, "every source of the job declares its snapshot" in output) == (2, True)


def test_files_are_refused_at_their_line(job: Path, capsys: Shown) -> None:
    job.write_text(job.read_text().replace(TAGGED, FILE))
    code, output = compare(job, capsys, "--as-of", "2026-01-31T12:00:00Z")
    assert (code, "lake.recon.yaml:17:7 DR1006" in output) == (2, True)
    assert "files without a connection do not keep the state of an earlier time" in output
    assert "declare `snapshot: {as_of: …}` for the other sources alone" in output
    assert "declare the `connection` of the captures" in output


def test_files_and_databases_of_flags_are_refused(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "sample")
    (tmp_path / "a.csv").write_text("id\n1\n")
    database = "postgresql://ana@127.0.0.1:5432/books?table=public.a"
    file = str(tmp_path / "a.csv")
    code, output = call(
        capsys, "compare", file, database, "--key", "id", "--as-of", "2026-01-31T12:00:00Z"
    )
    assert (code, "a.csv: --as-of: files without a connection do not keep" in output) == (2, True)
    assert "a PostgreSQL database does not keep its rows of an earlier time" in output
