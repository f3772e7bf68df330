"""`datarecs judge`: another verdict over the same differences, and what it refuses to guess."""

import json
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
ONE = "id,amount,paid\n1,10.00,2026-01-01\n2,20.00,2026-01-02\n3,30.00,\n4,40.00,2026-01-04\n"
TWO = "id,amount,paid\n1,10.01,2026-01-01\n2,25.00,2026-01-02\n3,30.00,\n4,40.00,2026-01-05\n"
AMOUNT, PAID = "stages.rows.measures.amount", "stages.rows.measures.paid"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text(ONE)
    (tmp_path / "two.csv").write_text(TWO)
    return tmp_path


def compared(amount: str, paid: str, out: str) -> int:
    arguments = ["--key", "id", "--measure", f"amount{amount}", "--measure", f"paid{paid}"]
    return run(["compare", "one.csv", "two.csv", *arguments, "--out", out])


def judged(*settings: str, shown: Shown) -> dict[str, Any]:
    shown.readouterr()
    words = [word for each in settings for word in ("--set", each)]
    code = run(["judge", "kept", *words, "-o", "json"])
    document = json.loads(shown.readouterr().out)
    assert isinstance(document, dict)
    return {"exit": code, **document}


def now(document: dict[str, Any]) -> list[Any]:
    (stage,) = document["stages"]
    return [
        document["exit"],
        document["result"]["now"],
        stage["rows_matched"]["now"],
        *((each["within"]["now"], each["outside"]["now"]) for each in stage["measures"]),
    ]


def really(code: int, out: str) -> list[Any]:
    proof = json.loads(Path(out, "run.json").read_bytes())["proof"]
    (stage,) = proof["stages"]
    return [
        code,
        proof["result"],
        stage["counts"]["rows_matched"],
        *((each["within"], each["outside"]) for each in stage["measures"]),
    ]


@pytest.mark.case("P62")
@pytest.mark.parametrize("amount", ["0.05", "0.001", "5", "25%", "0.1%"])
@pytest.mark.parametrize("paid", ["P1D", "PT1S"])
@pytest.mark.usefixtures("folder")
def test_a_what_if_equals_the_real_run(amount: str, paid: str, capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    settings = [f"{AMOUNT}.tolerances={amount}", f"{PAID}.tolerances={paid}"]
    what_if = judged(*settings, shown=capsys)
    assert now(what_if) == really(compared(f"={amount}", f"={paid}", "real"), "real")


@pytest.mark.case("P62")
def test_the_run_stays_as_it_is(folder: Path, capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    before = {path: path.read_bytes() for path in (folder / "kept").rglob("*") if path.is_file()}
    capsys.readouterr()
    settings = ["--set", f"{AMOUNT}.tolerances=5", "--set", f"{PAID}.tolerances=P1D"]
    assert run(["judge", "kept/run.json", *settings]) == 0
    output = capsys.readouterr().out
    assert output.startswith("UNMATCHED -> MATCHED  judged again")
    assert "rows matched  2 -> 4 of 4" in output
    assert "amount  ABSOLUTE 0.01 -> ABSOLUTE 5  3 -> 4 within, 1 -> 0 outside" in output
    assert "paid  EXACT -> DURATION 86400 s  3 -> 4 within, 1 -> 0 outside" in output
    after = {path: path.read_bytes() for path in (folder / "kept").rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.usefixtures("folder")
def test_lists_bounds_and_combinations_are_read_as_a_job_reads_them(capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    both = f"{AMOUNT}.tolerances=[{{type: PERCENTAGE, value: 1}}, {{type: ABSOLUTE, value: 5}}]"
    alone = judged(both, shown=capsys)
    assert alone["stages"][0]["measures"][0]["outside"]["now"] == 1
    either = judged(both, f"{AMOUNT}.combine=any", shown=capsys)
    assert either["stages"][0]["measures"][0]["outside"]["now"] == 0
    edge = judged(f"{AMOUNT}.tolerances=5", f"{AMOUNT}.bound=exclusive", shown=capsys)
    assert edge["stages"][0]["measures"][0]["outside"]["now"] == 1


@pytest.mark.case("P58")
@pytest.mark.usefixtures("folder")
def test_limits_of_acceptance_decide_under_the_gate_alone() -> None:
    compared("=0.01", "", "kept")
    limits = ["--set", "stages.rows.accept.max_outside=2"]
    assert run(["judge", "kept", *limits]) == 1
    assert run(["judge", "kept", *limits, "--gate", "acceptance"]) == 0
    stricter = ["--set", "stages.rows.accept={max_outside: 1}"]
    assert run(["judge", "kept", *stricter, "--gate", "acceptance"]) == 1


@pytest.mark.case("P62")
@pytest.mark.parametrize(
    "setting",
    [
        "stages.rows.duplicates=error",
        "stages.rows.dimensions=[amount]",
        f"{AMOUNT}.column=paid",
        "normalize.strings.trim=both",
        f"{AMOUNT}.tolerances=PT1S",
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_acts_before_judging_is_refused_by_its_code(setting: str, capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    assert run(["judge", "kept", "--set", setting]) == 2
    assert "DR3104" in capsys.readouterr().err


@pytest.mark.parametrize(
    "setting",
    [
        "amount=1",
        "stages.rows",
        f"{AMOUNT}.tolerances=",
        f"{AMOUNT}.tolerances=x",
        f"{AMOUNT}.tolerances=[{{type: CLOSE, value: 1}}]",
        f"{AMOUNT}.tolerances=101%",
        "stages.rows.measures.amont.tolerances=1",
        "stages.row.measures.amount.tolerances=1",
        f"{AMOUNT}.tolerances=1\n",
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_understood_is_usage(setting: str, capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    assert run(["judge", "kept", "--set", setting]) == 2
    assert "--set" in capsys.readouterr().err


def test_a_touched_run_is_not_judged(folder: Path, capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    document = json.loads((folder / "kept/run.json").read_bytes())
    document["proof"]["result"] = "MATCHED"
    (folder / "kept/run.json").write_text(json.dumps(document))
    assert run(["judge", "kept", "--set", f"{AMOUNT}.tolerances=1"]) == 2
    assert "datarecs verify" in capsys.readouterr().err
    (folder / "kept/run.json").write_text("{")
    assert run(["judge", "kept", "--set", f"{AMOUNT}.tolerances=1"]) == 2


def test_without_differences_there_is_nothing_to_judge(folder: Path, capsys: Shown) -> None:
    compared("=0.01", "", "kept")
    (folder / "kept/run.json").rename(folder / "run.json")
    assert run(["judge", "run.json", "--set", f"{AMOUNT}.tolerances=1"]) == 2
    assert "the folder differences beside it is missing" in capsys.readouterr().err
