"""Columns on the command line: every name can be given, and the printed command gives it again."""

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_cli.commands.compare import flags_of
from datarecs_cli.invocation import UsageFault
from datarecs_cli.local.column_names import MeasureFlag, column_names, measure_flag, name_text
from datarecs_cli.local.question import Flags
from datarecs_cli.main import run

ODD = ["a,b", "a=b", 'say "x"', '"', " a ", "a=0.01", "=", ",", '","', "a b", "größe", '"a",b']
NAMES = st.text(min_size=1, alphabet=st.characters(codec="utf-8")).filter(str.strip)


def flags_of_command(command: str) -> Flags:
    words = shlex.split(command)[2:]
    values: dict[str, list[str]] = {"--key": [], "--measure": [], "--except": []}
    for flag, value in zip(words[2::2], words[3::2], strict=True):
        values[flag].append(value)
    return flags_of(words[:2], values["--key"], values["--measure"], values["--except"], None)


@given(st.lists(NAMES | st.sampled_from(ODD)), st.lists(NAMES | st.sampled_from(ODD)))
def test_the_printed_command_names_the_same_columns(keys: list[str], others: list[str]) -> None:
    measures = tuple(MeasureFlag(name, limit) for name in others for limit in (None, "0.01", "P1D"))
    flags = Flags(
        sources=("one.csv", "two.csv"), keys=tuple(keys), measures=measures, left_out=tuple(others)
    )
    assert flags_of_command(flags.command) == flags


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ("a", "b")),
        (" a , b ,", ("a", "b")),
        ('"a,b",c', ("a,b", "c")),
        ('c, "a,b" ,"d""e"', ("c", "a,b", 'd"e')),
        ('5" pipe,b', ('5" pipe', "b")),
        ('"a"b,c', ('"a"b', "c")),
        ('"a,b', ('"a', "b")),
    ],
)
def test_names_are_separated_by_commas_outside_of_quotes(text: str, names: tuple[str, ...]) -> None:
    assert column_names([text]) == names


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("amount", MeasureFlag("amount")),
        ("amount=0.01", MeasureFlag("amount", "0.01")),
        ("a=b=1%", MeasureFlag("a=b", "1%")),
        ('"a=b"', MeasureFlag("a=b")),
        ('"a=1"=PT1S', MeasureFlag("a=1", "PT1S")),
    ],
)
def test_a_limit_follows_the_last_equals_sign_outside_of_quotes(
    text: str, measure: MeasureFlag
) -> None:
    assert measure_flag(text) == measure


def test_a_limit_that_is_none_explains_the_quotes() -> None:
    with pytest.raises(UsageFault, match=r"'b' is no limit.*--measure '\"a=b\"'"):
        measure_flag("a=b")


@pytest.mark.parametrize("name", [name for name in ODD if name != " a "])
def test_every_name_can_be_a_key_or_a_measure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, amount in (("one", 1), ("two", 2)):
        table = pa.table({name: [1], "value": [amount]})
        pq.write_table(table, f"{file}.parquet")
    files = ["compare", "one.parquet", "two.parquet"]
    assert run([*files, "--key", name_text(name), "--out", "out"]) == 1
    assert run([*files, "--key", "value", "--measure", f"{measure(name)}", "--out", "out"]) == 1
    assert run([*files, "--key", "value", "--except", name_text(name), "--out", "out"]) == 1
    assert run([*files, "--key", name_text(name), "--measure", "value=1", "--out", "out"]) == 0
    assert capsys.readouterr().out


def measure(name: str) -> MeasureFlag:
    return MeasureFlag(name)


def test_names_with_commas_are_listed_for_an_unknown_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("one.csv", "two.csv"):
        Path(file).write_text('id,"a,b"\n1,2\n')
    assert run(["compare", "one.csv", "two.csv", "--key", "a,b"]) == 2
    assert "source one has no column 'a'; it has a,b, id" in capsys.readouterr().err
