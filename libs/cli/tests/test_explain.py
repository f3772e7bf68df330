"""`explain`: a pattern with its evidence, and one key with its values before and after rules."""

import json
from pathlib import Path

import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: explained}
spec:
  sources:
    - {name: ledger, kind: csv, path: ledger.csv}
    - {name: lake, kind: csv, path: lake.csv}
  normalize: {columns: {note: {trim: both}}}
  stages:
    - name: rows
      type: row
      dimensions: [id, day]
      measures: [{name: amount}, {name: note}]
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> str:
    """Amounts a hundred times as large in lake, and one note that differs beyond its blanks."""
    monkeypatch.chdir(tmp_path)
    days = range(1, 9)
    ledger = [f"{at},2026-01-0{at},{at}.25,a" for at in days]
    lake = [f"{at},2026-01-0{at},{at}25,a" for at in days]
    lake[2] = lake[2][:-1] + " b "
    (tmp_path / "ledger.csv").write_text("\n".join(["id,day,amount,note", *ledger, ""]))
    (tmp_path / "lake.csv").write_text("\n".join(["id,day,amount,note", *lake, ""]))
    (tmp_path / "job.yaml").write_text(JOB)
    assert run(["compare", "job.yaml", "--out", "kept"]) == 1
    capsys.readouterr()
    return "kept"


def test_a_pattern_is_told_with_rule_share_breaks_and_line(kept: str, capsys: Shown) -> None:
    assert run(["explain", kept]) == 0
    told = capsys.readouterr().out
    assert "rows amount: lake is exactly 100 times the reference" in told
    assert "CONSTANT_FACTOR, 8 of 8 breaks (100 %)" in told
    assert 'declare  sources[lake].columns: {amount: {expr: "amount * 1 / 100"}}' in told
    assert run(["explain", kept, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (stage,) = found["stages"]
    assert [hint["rule"] for hint in stage["hints"]] == ["CONSTANT_FACTOR"]
    assert len(stage["hints"][0]["examples"]) == 3


def test_a_key_shows_every_value_as_read_and_as_compared(kept: str, capsys: Shown) -> None:
    assert run(["explain", kept, "id=3", "day=2026-01-03"]) == 0
    told = capsys.readouterr().out
    assert "rows amount: OUTSIDE, BREAK" in told
    assert "lake  325  delta 321.75" in told
    assert "lake  b  (as read  b )" in told
    assert run(["explain", kept, "id=3", "day=2026-01-03", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["differences"]
    assert {row["measure"] for row in found} == {"amount", "note"}


def test_a_key_without_a_difference_is_said_to_have_none(kept: str, capsys: Shown) -> None:
    for key in (["id=9", "day=2026-01-03"], ["id=3"], ["3"]):
        assert run(["explain", kept, *key]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert "no difference of" in err


def test_without_a_pattern_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("id,v\n1,1\n2,5\n")
    (tmp_path / "two.csv").write_text("id,v\n1,1\n2,6\n")
    assert run(["compare", "one.csv", "two.csv", "--key", "id", "--out", "kept"]) == 1
    assert run(["explain", "kept"]) == 0
    assert "no pattern explains half" in capsys.readouterr().err
    assert run(["explain", "kept", "2"]) == 0
    assert "two  6  delta 1" in capsys.readouterr().out


def test_what_cannot_be_meant_is_usage(kept: str) -> None:
    assert run(["explain", "nowhere"]) == 2
    assert run(["explain", kept, "--stage", "other"]) == 2
    assert run(["explain", kept, "-o", "csv"]) == 2
