"""`export`, and `diff` of a folder: every row, every digit, and no formula."""

import csv
import json
import re
from pathlib import Path
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest

from datarecs_cli.exporting import MAX_XLSX_ROWS, ExportForm, Layout, TooManyForXlsxError, export
from datarecs_cli.main import run
from datarecs_cli.output import csv_text
from datarecs_testing.scripted_api import (
    RUN_ID,
    ScriptedApi,
    a_run_view,
    says,
    written_credentials,
)

Shown = pytest.CaptureFixture[str]
ONE = 'id,amount,note\n=1+1,-12.50,"=cmd|x"\n2,12345678901234567.89,@a\n3,1,x\n'
TWO = 'id,amount,note\n=1+1,-13.50,"+b"\n2,12345678901234567.90,-5\n4,1,x\n'
LAYOUT = Layout(dimensions=("k",), sources=("a", "b"))
ROW = {"stage": "s", "measure": "v", "class": "OUTSIDE", "key": {"k": "1"}, "values": {"a": "1"}}


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text(ONE)
    (tmp_path / "two.csv").write_text(TWO)
    assert run(["compare", "one.csv", "two.csv", "--key", "id", "--out", "kept"]) == 1
    capsys.readouterr()
    return tmp_path / "kept"


def read(path: str) -> dict[tuple[str, str], dict[str, str]]:
    with Path(path).open(newline="") as file:
        return {(row["key.id"], row["measure"]): row for row in csv.DictReader(file)}


@pytest.mark.usefixtures("run_folder")
def test_csv_preserves_numbers_and_disarms_texts(capsys: Shown) -> None:
    assert run(["export", "kept", "--out", "out/d.csv"]) == 0
    rows = read("out/d.csv")
    assert len(rows) == 6
    amount = rows["'=1+1", "amount"]
    assert (amount["value.one"], amount["delta.two"]) == ("-12.5", "-1")
    note = rows["'=1+1", "note"]
    assert (note["value.one"], note["value.two"]) == ("'=cmd|x", "'+b")
    assert rows["2", "note"]["value.two"] == "-5"
    assert rows["2", "amount"]["value.one"] == "12345678901234567.89"
    assert rows["3", "$presence"]["value.two"] == ""
    assert "6 differences" in capsys.readouterr().err


@pytest.mark.usefixtures("run_folder")
@pytest.mark.parametrize("command", ["diff", "export"])
@pytest.mark.parametrize(
    "flags", [("--measure", "amont"), ("--only", "missing:tow"), ("--only", "outside:amont")]
)
def test_a_filter_with_an_unknown_name_is_refused(
    command: str, flags: tuple[str, str], capsys: Shown
) -> None:
    assert run([command, "kept", *flags]) == 2
    assert f"{' '.join(flags)}: the run has only " in capsys.readouterr().err


@pytest.mark.usefixtures("run_folder")
@pytest.mark.parametrize("command", ["diff", "explain", "export", "report"])
def test_a_misspelt_folder_is_not_searched_on_a_server(command: str, capsys: Shown) -> None:
    assert run([command, "kpet"]) == 2
    assert "kpet: no such file or folder" in capsys.readouterr().err


@pytest.mark.usefixtures("run_folder")
def test_an_unknown_filter_of_a_folder_is_wrong_usage(capsys: Shown) -> None:
    assert run(["diff", "kept", "--only", "changed"]) == 2
    assert "unknown filter 'changed'" in capsys.readouterr().err


@pytest.mark.usefixtures("run_folder")
def test_jsonl_and_parquet_hold_the_same_rows() -> None:
    assert run(["export", "kept", "--format", "jsonl"]) == 0
    assert run(["export", "kept", "--format", "parquet"]) == 0
    lines = [json.loads(line) for line in Path("differences.jsonl").read_text().splitlines()]
    table = pq.read_table("differences.parquet").to_pylist()
    assert sorted(row["break_id"] for row in table) == sorted(row["break_id"] for row in lines)
    assert {row["value.one"] for row in table if row["key.id"] == "2"} == {
        "12345678901234567.89",
        "@a",
    }


@pytest.mark.usefixtures("run_folder")
def test_xlsx_writes_numbers_as_numbers_and_texts_as_texts() -> None:
    assert run(["export", "kept", "--format", "xlsx", "--out", "d.xlsx"]) == 0
    sheets = sheets_of("d.xlsx")
    sheet, notes = "".join(sheets.values()), sheets["notes"]
    assert "<f>" not in sheet
    assert "<v>-12.5</v>" in sheet
    assert "12345678901234567.89</t>" in sheet
    assert "=cmd|x</t>" in sheet
    assert "more than 15 digits" in notes


def sheets_of(path: str) -> dict[str, str]:
    """Written form of each sheet, by its name."""
    with ZipFile(path) as book:
        names = re.findall(r'<sheet name="([^"]+)"', book.read("xl/workbook.xml").decode())
        read = (book.read(f"xl/worksheets/sheet{at}.xml") for at in range(1, len(names) + 1))
        return dict(zip(names, (each.decode() for each in read), strict=True))


@pytest.mark.usefixtures("run_folder")
def test_xlsx_has_a_sheet_per_class_with_frozen_titles_filters_and_widths() -> None:
    assert run(["export", "kept", "--format", "xlsx", "--out", "d.xlsx"]) == 0
    sheets = sheets_of("d.xlsx")
    assert sorted(sheets) == ["missing", "notes", "outside"]
    for name in ("missing", "outside"):
        assert '<pane xSplit="2" ySplit="1"' in sheets[name]
        assert 'state="frozen"' in sheets[name]
        assert "<autoFilter ref=" in sheets[name]
        assert "customWidth" in sheets[name]
        assert "key.id</t>" in sheets[name]


@pytest.mark.case("X80")
@pytest.mark.usefixtures("run_folder")
def test_xlsx_neutralises_formulas_as_csv_does() -> None:
    assert run(["export", "kept", "--format", "xlsx", "--out", "d.xlsx"]) == 0
    sheet = "".join(sheets_of("d.xlsx").values())
    assert "'=cmd|x</t>" in sheet.replace("&#39;", "'")
    assert "'=1+1</t>" in sheet.replace("&#39;", "'")


@pytest.mark.case("U50")
@pytest.mark.parametrize("form", list(ExportForm))
def test_thirty_eight_digits_are_exact_in_every_form(form: ExportForm, tmp_path: Path) -> None:
    digits = "12345678901234567890123456789012345.678"
    row = {**ROW, "values": {"a": digits, "b": "0.1"}, "deltas": {"b": f"-{digits}"}}
    target = tmp_path / "d"
    assert export([row], LAYOUT, form, target) == 1
    match form:
        case ExportForm.XLSX:
            sheet = sheets_of(str(target))["outside"]
            assert f">{digits}</t>" in sheet
            assert f">-{digits}</t>" in sheet
            assert "<v>0.1</v>" in sheet
        case ExportForm.PARQUET:
            (read,) = pq.read_table(target).to_pylist()
            assert (read["value.a"], read["delta.b"]) == (digits, f"-{digits}")
        case _:
            assert f"-{digits}" in target.read_text()


@pytest.mark.usefixtures("run_folder")
def test_filters_are_those_of_diff(capsys: Shown) -> None:
    assert run(["export", "kept", "--only", "missing:two", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    assert run(["export", "kept", "--measure", "note", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert run(["export", "kept", "--stage", "nowhere"]) == 2
    assert run(["export", "kept", "--format", "ods"]) == 2
    assert run(["export", "kept/differences"]) == 2


def test_a_spreadsheet_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_XLSX_ROWS == 200_000
    monkeypatch.setattr("datarecs_cli.exporting.MAX_XLSX_ROWS", 3)
    target = tmp_path / "d.xlsx"
    assert export([ROW] * 3, LAYOUT, ExportForm.XLSX, target) == 3
    target.unlink()
    with pytest.raises(TooManyForXlsxError, match="use --format parquet"):
        export([ROW] * 4, LAYOUT, ExportForm.XLSX, target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", list(ExportForm))
def test_an_export_without_rows_is_a_file_with_columns(form: ExportForm, tmp_path: Path) -> None:
    assert export([], LAYOUT, form, tmp_path / "d") == 0
    assert (tmp_path / "d").is_file()


@pytest.mark.case("X86")
@pytest.mark.case("P64")
@pytest.mark.parametrize("form", list(ExportForm))
def test_no_export_shows_a_masked_value(
    form: ExportForm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("id,v\nkey-secret,one-secret\n")
    (tmp_path / "two.csv").write_text("id,v\nkey-secret,two-secret\nmore-secret,x\n")
    (tmp_path / "job.yaml").write_text(
        "apiVersion: datarecs.io/v1\nkind: ReconciliationJob\nmetadata: {name: masked}\n"
        "spec:\n  sources:\n    - {name: one, kind: csv, path: one.csv}\n"
        "    - {name: two, kind: csv, path: two.csv}\n  stages:\n"
        "    - {name: rows, type: row, dimensions: [id], measures: [{name: v}]}\n"
        "  results: {breaks: {mask: {id: hash, v: redact}}}\n"
    )
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    assert run(["export", "kept", "--format", form, "--out", "d"]) == 0
    content = Path("d").read_bytes()
    if form is ExportForm.XLSX:
        with ZipFile("d") as book:
            content = b"".join(book.read(name) for name in book.namelist())
    assert b"secret" not in content
    for file in (each for each in Path("kept").rglob("*") if each.is_file()):
        assert b"secret" not in file.read_bytes(), file


@pytest.mark.case("X80")
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('=HYPERLINK("http://x")', '\'=HYPERLINK("http://x")'),
        ("\t=1", "'\t=1"),
        ("  =1", "'  =1"),
        ("＝1+1", "'＝1+1"),  # noqa: RUF001  full-width signs start formulas too
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("\r=1", "'\r=1"),
        ("-12.50", "-12.50"),
        ("+7", "+7"),
        ("plain", "plain"),
    ],
)
def test_a_text_that_starts_a_formula_is_quoted_and_a_number_is_not(
    text: str, written: str
) -> None:
    assert csv_text(text) == written


@pytest.mark.usefixtures("run_folder")
def test_diff_shows_a_folder_as_it_shows_a_run(capsys: Shown) -> None:
    assert run(["diff", "kept"]) == 1
    output = capsys.readouterr().out
    assert output.splitlines()[0].split()[:3] == ["id", "MEASURE", "CLASS"]
    assert run(["diff", "kept", "-o", "md", "--measure", "amount"]) == 1
    assert capsys.readouterr().out.startswith("| id | MEASURE | CLASS | one | two |")
    assert run(["diff", "kept", "--only", "null"]) == 0
    assert "no differences" in capsys.readouterr().err
    assert run(["diff", "kept/differences"]) == 2


def test_a_run_of_a_server_exports_what_it_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api = ScriptedApi()
    path = f"/runs/{RUN_ID}"
    api.on("GET", path, says(a_run_view(status="COMPLETED", result="UNMATCHED")))
    api.on("GET", "/jobs/orders", says({"spec": {"sources": [{"name": "a"}, {"name": "b"}]}}))
    api.on("GET", f"{path}/mismatches", says({"items": [ROW] * 1000, "next": None}))
    with api.in_place_of_the_network():
        assert run(["export", RUN_ID]) == 0
    assert "the largest 1,000; a server lists no more" in capsys.readouterr().err
    with Path("differences.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (len(rows), rows[0]["key.k"], rows[0]["value.a"]) == (1000, "1", "1")
