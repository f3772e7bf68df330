"""`datarecs verify`: what a comparison left is checked, and whatever was touched is named."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from datarecs_cli.evidence import NoJsonError, check, evidence_at
from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
ONE = "id,amount,paid\n1,10.00,2026-01-01\n2,20.00,2026-01-02\n3,30.00,\n4,40.00,2026-01-04\n"
TWO = "id,amount,paid\n1,10.01,2026-01-01\n2,25.00,2026-01-02\n3,30.00,2026-01-03\n5,1.00,\n"


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> Path:
    """The folder of a comparison with a difference of every common kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text(ONE)
    (tmp_path / "two.csv").write_text(TWO)
    arguments = [
        "one.csv",
        "two.csv",
        "--key",
        "id",
        "--measure",
        "amount=0.01",
        "--measure",
        "paid",
    ]
    assert run(["compare", *arguments, "--out", "kept"]) == 1
    capsys.readouterr()
    return tmp_path / "kept"


def answer(shown: Shown) -> dict[str, Any]:
    document = json.loads(shown.readouterr().out)
    assert isinstance(document, dict)
    return document


def checks(document: dict[str, Any]) -> list[str]:
    return [each["check"] for each in document["findings"]]


def test_what_compare_leaves_behind_verifies(run_folder: Path, capsys: Shown) -> None:
    assert run(["verify", str(run_folder)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("VERIFIED  ")
    assert "checked      5 differences of stage rows" in output
    assert "not checked" not in output
    assert run(["verify", str(run_folder / "run.json"), "-o", "json"]) == 0
    document = answer(capsys)
    assert document["schema"] == "datarecs.cli.verify/1"
    assert document["verified"] is True
    assert (
        document["proof_hash"] == json.loads((run_folder / "run.json").read_bytes())["proof_hash"]
    )


def test_a_document_alone_verifies_and_says_what_was_not_checked(
    run_folder: Path, tmp_path: Path, capsys: Shown
) -> None:
    (tmp_path / "alone").mkdir()
    alone = tmp_path / "alone" / "saved.json"
    alone.write_bytes((run_folder / "run.json").read_bytes())
    assert run(["verify", str(alone)]) == 0
    output = capsys.readouterr().out
    assert "not checked  differences of stage rows: the folder differences beside" in output


def test_another_layout_of_the_same_document_verifies(run_folder: Path) -> None:
    document = json.loads((run_folder / "run.json").read_bytes())
    (run_folder / "run.json").write_text(json.dumps(document, indent=2))
    assert run(["verify", str(run_folder)]) == 0


@pytest.mark.case("P63")
def test_no_byte_of_the_proof_can_change_unseen(run_folder: Path) -> None:
    written = (run_folder / "run.json").read_bytes()
    begins = written.index(b'"proof":')
    ends = written.index(b'"run":', begins)
    places = [*range(begins, ends - 1, 5), written.index(b'"schema"') + 12]
    for at in places:
        changed = bytearray(written)
        changed[at] = changed[at] ^ 1
        (run_folder / "run.json").write_bytes(changed)
        try:
            findings = check(evidence_at(run_folder)).findings
        except NoJsonError:
            continue
        assert findings, (at, bytes(changed[at - 20 : at + 20]))


@pytest.mark.case("P63")
def test_a_changed_number_is_named(run_folder: Path, capsys: Shown) -> None:
    document = json.loads((run_folder / "run.json").read_bytes())
    document["proof"]["stages"][0]["counts"]["rows_matched"] += 1
    (run_folder / "run.json").write_text(json.dumps(document))
    assert run(["verify", str(run_folder), "-o", "json"]) == 1
    assert checks(answer(capsys)) == ["proof_hash", "F05"]


@pytest.mark.case("P63")
def test_a_changed_difference_is_named(run_folder: Path, capsys: Shown) -> None:
    (part,) = run_folder.rglob("*.parquet")
    table = pq.read_table(part, partitioning=None)
    pq.write_table(table.slice(1), part)
    assert run(["verify", str(run_folder), "-o", "json"]) == 1
    document = answer(capsys)
    assert set(checks(document)) <= {"differences", "samples"}
    assert document["findings"][0]["message"] == "4 rows are stored, the proof counts 5"
    part.write_bytes(part.read_bytes()[:-9])
    assert run(["verify", str(run_folder)]) == 1
    assert "the file cannot be read as Parquet" in capsys.readouterr().out
    part.unlink()
    assert run(["verify", str(run_folder)]) == 1
    assert "0 rows are stored, the proof counts 5" in capsys.readouterr().out


@pytest.mark.case("P63")
def test_a_changed_source_file_is_named(run_folder: Path, tmp_path: Path, capsys: Shown) -> None:
    arguments = ["verify", str(run_folder), "--source", "one=.", "--source", "two=two.csv"]
    assert run(arguments) == 0
    assert "pinned files of source two" in capsys.readouterr().out
    (tmp_path / "two.csv").write_text(TWO.replace("25.00", "26.00"))
    assert run(arguments) == 1
    assert "two.csv: its content has changed since the run" in capsys.readouterr().out
    (tmp_path / "one.csv").unlink()
    (tmp_path / "two.csv").write_text(TWO + "\n")
    assert run(arguments) == 1
    output = capsys.readouterr().out
    assert "one.csv: the file is missing" in output
    assert "two.csv: it has" in output


def test_a_masked_key_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text(ONE)
    (tmp_path / "two.csv").write_text(TWO)
    (tmp_path / "job.yaml").write_text(
        "apiVersion: datarecs.io/v1\nkind: ReconciliationJob\nmetadata: {name: masked}\n"
        "spec:\n  sources:\n    - {name: one, kind: csv, path: one.csv}\n"
        "    - {name: two, kind: csv, path: two.csv}\n  stages:\n"
        "    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}\n"
        "  results: {breaks: {mask: {id: hash}}}\n"
    )
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    assert b'"h:' in Path("kept/run.json").read_bytes()
    assert run(["verify", "kept"]) == 0


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"schema": "datarecs.run/1", "schema": "datarecs.run/1"}',
        b'{"proof": 1.0}',
        b'{"proof": NaN}',
        b"{}",
        b"[]",
    ],
)
def test_any_other_file_differs_and_nothing_crashes(
    written: bytes, tmp_path: Path, capsys: Shown
) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(written)
    assert run(["verify", str(file)]) == 1
    assert capsys.readouterr().out.startswith("DIFFERS")


def test_what_cannot_be_meant_is_usage(run_folder: Path, tmp_path: Path) -> None:
    assert run(["verify", str(tmp_path / "nothing")]) == 2
    assert run(["verify", str(tmp_path)]) == 2
    assert run(["verify", str(run_folder), "--source", "three=."]) == 2
    assert run(["verify", str(run_folder), "--source", "one"]) == 2
    assert run(["verify", str(run_folder), "-o", "csv"]) == 2
