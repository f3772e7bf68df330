"""`report DIR`: the runs of a folder on one page, newest first, and nothing from outside it."""

import json
import re
from pathlib import Path

import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("id,amount\n1,1.10\n2,2.20\n")
    Path("two.csv").write_text("id,amount\n1,1.20\n3,2.20\n")
    for name, second in (("monday", "two.csv"), ("tuesday & more", "one.csv")):
        run(["compare", "one.csv", second, "--key", "id", "--out", f"results/{name}"])
    capsys.readouterr()
    return tmp_path / "results"


def rows_of(page: str) -> list[str]:
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


def test_the_newest_run_stands_first_with_outcome_counts_amount_and_link(
    results: Path, capsys: Shown
) -> None:
    assert run(["report", "results"]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == "results/index.html"
    assert "2 runs" in shown.err
    page = (results / "index.html").read_text()
    newest, oldest = rows_of(page)
    assert newest.startswith("● MATCHED")
    assert oldest.startswith("▲ UNMATCHED")
    assert " 3 3 " in oldest
    assert 'href="monday/report.html"' in page
    assert 'href="tuesday%20%26%20more/report.html"' in page


def test_a_run_without_a_verdict_is_listed_by_its_report(results: Path) -> None:
    (results / "monday" / "run.json").unlink()
    assert run(["report", "results"]) == 0
    page = (results / "index.html").read_text()
    assert "✖</span> ERRORED" in page
    assert "monday/report.html" in page


def test_nothing_outside_the_folder_is_read_or_linked(results: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (results / "monday").rename(outside)
    (results / "linked").symlink_to(outside)
    inside = results / "copied"
    inside.mkdir()
    (inside / "run.json").symlink_to(outside / "run.json")
    (inside / "report.html").symlink_to(outside / "report.html")
    assert run(["report", "results"]) == 0
    page = (results / "index.html").read_text()
    assert len(rows_of(page)) == 1
    assert "linked" not in page
    assert "copied" not in page


def test_a_damaged_run_is_named_and_the_others_are_listed(results: Path) -> None:
    (results / "monday" / "run.json").write_text('{"proof": 1}')
    assert run(["report", "results"]) == 0
    page = (results / "index.html").read_text()
    assert len(rows_of(page)) == 1
    assert "monday: not listed" in page


def test_names_are_shown_literally(results: Path) -> None:
    (results / "monday").rename(results / "<script>alert(1)</script>".replace("/", "-"))
    document = results / "tuesday & more" / "run.json"
    changed = json.loads(document.read_text())
    changed["run"]["job"] = "<img src=x>"
    document.write_text(json.dumps(changed))
    assert run(["report", "results"]) == 0
    page = (results / "index.html").read_text()
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


@pytest.mark.usefixtures("results")
def test_a_folder_without_runs_and_forms_that_it_has_not_are_usage_faults(
    tmp_path: Path, capsys: Shown
) -> None:
    (tmp_path / "empty").mkdir()
    assert run(["report", "empty"]) == 2
    assert "the folder has no runs" in capsys.readouterr().err
    assert run(["report", "results", "--format", "md"]) == 2
    assert "remove --format md, or name the folder of one run" in capsys.readouterr().err
    assert run(["report", "results", "--out", "x.html"]) == 2
    assert "remove --out, or name the folder of one run" in capsys.readouterr().err


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("place", ["results/monday", "results/monday/run.json"])
@pytest.mark.parametrize(
    ("form", "name", "text"),
    [
        ("md", "report.md", "UNMATCHED"),
        ("junit", "report.xml", "<failure"),
        ("html", "report.html", "<!DOCTYPE html>"),
        ("json", "run.json", '"UNMATCHED"'),
    ],
)
def test_a_result_on_this_machine_is_reported_in_every_form(
    place: str, form: str, name: str, text: str, capsys: Shown
) -> None:
    written = Path("results/monday") / name
    assert run(["report", place, "--format", form]) == 0
    assert capsys.readouterr().out.strip() == f"results/monday/{name}"
    assert text in written.read_text()
    assert run(["report", place, "--format", form, "--out", "copies/one"]) == 0
    assert Path("copies/one").read_bytes() == written.read_bytes()


@pytest.mark.parametrize("text", ["no json", "[]", "{}"])
@pytest.mark.parametrize("form", ["md", "junit"])
def test_a_file_that_is_no_result_has_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, form: str, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.json").write_text(text)
    assert run(["report", "run.json", "--format", form]) == 2
    assert "run.json: " in capsys.readouterr().err


def test_a_result_without_its_page_says_so(results: Path, capsys: Shown) -> None:
    (results / "monday" / "report.html").unlink()
    assert run(["report", "results/monday"]) == 2
    assert "results/monday/report.html: No such file" in capsys.readouterr().err
