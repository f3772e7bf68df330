"""`validate`, `plan`, `compare` and `run` report the same errors at the same places."""

import json
import re
from pathlib import Path

import pytest

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.main import run
from datarecs_testing.scripted_api import written_credentials

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: one, kind: csv, path: a.csv}
    - {name: two, kind: csv, path: b.csv}
  stages:
    - name: rows
      type: row
      dimensions: [id]
      measures: [{name: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}]
"""
Place = tuple[str, int, int, str]
Shown = pytest.CaptureFixture[str]
_PLACE = re.compile(r"^(\S+?):(\d+):(\d+) (DR\d{4})", re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files that match, and a server that nobody needs to reach."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    written_credentials(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("id,amount\n1,2.00\n")
    return tmp_path


def places(words: list[str], shown: Shown) -> list[Place]:
    """Every error, warning and note that the command shows, wherever it shows it."""
    assert run([*words, "job.yaml"]) == ExitCode.USAGE
    out, err = shown.readouterr()
    return [
        (file, int(line), int(column), code)
        for file, line, column, code in _PLACE.findall(f"{out}\n{err}")
    ]


WRONG = {
    "unknown field": ("measures:", "mesures:", "DR1004"),
    "bad tolerance": ("value: 0.01", "value: lots", "DR1040"),
    "unknown kind": ("kind: csv, path: a.csv", "kind: cvs, path: a.csv", "DR1012"),
    "wrong type": ("dimensions: [id]", "dimensions: 7", "DR1011"),
    "a name twice": ("name: two", "name: one", "DR1020"),
    "a scope without its stage": ("type: row\n", "type: row\n      scope: {from: x}\n", "DR1"),
    "no YAML": ("spec:", "\tspec: [", "DR1"),
    "no name": ("metadata: {name: orders}", "metadata: {}", "DR1010"),
}


@pytest.mark.case("U16")
@pytest.mark.parametrize("fault", WRONG)
def test_the_same_wrong_job_has_the_same_faults_in_every_command(fault: str, capsys: Shown) -> None:
    right, wrong, code = WRONG[fault]
    assert right in JOB
    Path("job.yaml").write_text(JOB.replace(right, wrong))
    expected = places(["validate"], capsys)
    assert any(each.startswith(code) for *_, each in expected), expected
    for words in (["plan"], ["plan", "--offline"], ["compare"], ["run"]):
        assert places(words, capsys) == expected, words


UNFIT = {
    "no such column": ("dimensions: [id]", "dimensions: [ids]", (11, 20, "DR1060")),
    "no tolerance of this type": (
        "{type: ABSOLUTE, value: 0.01}",
        "{type: DURATION, value: PT1S}",
        (12, 46, "DR1042"),
    ),
}


@pytest.mark.case("U16")
@pytest.mark.parametrize("fault", UNFIT)
def test_a_job_that_does_not_fit_its_sources_is_shown_at_its_line(
    fault: str, capsys: Shown, folder: Path
) -> None:
    """Before anything is compared, and in the same words by both commands that open sources."""
    right, wrong, (line, column, code) = UNFIT[fault]
    Path("job.yaml").write_text(JOB.replace(right, wrong))
    planned = places(["plan"], capsys)
    assert ("job.yaml", line, column, code) in planned
    assert places(["compare"], capsys) == planned
    assert not (folder / "datarecs-compare").exists()


def test_what_does_not_fit_is_data_under_json(capsys: Shown) -> None:
    Path("job.yaml").write_text(JOB.replace("dimensions: [id]", "dimensions: [ids]"))
    assert run(["compare", "job.yaml", "-o", "json"]) == ExitCode.USAGE
    (file,) = json.loads(capsys.readouterr().out)["files"]
    codes = {each["code"] for each in file["findings"] if each["severity"] == "error"}
    assert codes == {"DR1060"}
