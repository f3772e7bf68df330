"""`datarecs compare` of a file and an Iceberg table: the example of the documentation."""

import json
import runpy
from pathlib import Path

import pytest

from datarecs_cli.main import run

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    runpy.run_path(str(EXAMPLES / "lake_data.py"))["main"](tmp_path)
    return tmp_path / "lake.recon.yaml"


def compare(job: Path, shown: Shown) -> tuple[int, str]:
    code = run(["compare", str(job), "--out", str(job.parent / "out"), "--quiet"])
    return code, " ".join("".join(shown.readouterr()).split())


def test_the_table_at_its_tag_is_what_was_loaded_and_now_it_is_not(
    job: Path, capsys: Shown
) -> None:
    code, output = compare(job, capsys)
    assert (code, "MATCHED 1,005 of 1,005" in output) == (0, True)
    pin = json.loads((job.parent / "out/run.json").read_bytes())["proof"]["sources"][1]["pin"]
    assert (pin["kind"], pin["table"], pin["catalog"]) == (
        "table_snapshot",
        "books.exports",
        "sql lake",
    )
    job.write_text(job.read_text().replace("ref: as-loaded", "ref: main"))
    code, output = compare(job, capsys)
    assert (code, "UNMATCHED 990 in both" in output) == (1, True)


@pytest.mark.parametrize(
    ("written", "instead", "why"),
    [
        ("books.exports", "books.export", "has no table 'books.export'"),
        ("ref: as-loaded", "ref: as-sent", "has no branch or tag 'as-sent'"),
        ("lake/catalog.db", "lake/catalogue.db", "no catalog file"),
        ("ref: as-loaded", "as_of: 1999-12-31T00:00:00Z", "no snapshot at 1999-12-31"),
    ],
)
def test_what_is_not_there_is_an_error_and_no_verdict(
    job: Path, capsys: Shown, written: str, instead: str, why: str
) -> None:
    job.write_text(job.read_text().replace(written, instead))
    code, output = compare(job, capsys)
    assert (code, why in output) == (3, True)


def test_a_table_needs_a_connection_of_its_type(job: Path, capsys: Shown) -> None:
    job.write_text(job.read_text().replace("connection: lake", "connection: pond"))
    code, output = compare(job, capsys)
    assert (code, "DR1023" in output) == (2, True)
