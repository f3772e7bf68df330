"""`datarecs init A B`: a job that runs as it was written, and never a stack trace."""

import csv
import gzip
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run

Shown = pytest.CaptureFixture[str]
ROWS = 120


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("DATARECS_CONN_DEFAULT_PG_BOOKS", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def trades() -> list[dict[str, object]]:
    """A bank's book: two amounts, a price of six digits, a date and a currency."""
    numbers = random.Random(7)  # noqa: S311  not for secrets
    return [
        {
            "trade_id": f"T{at:05}",
            "trade_date": f"2026-01-{1 + at % 28:02}",
            "currency": ("EUR", "USD", "JPY")[at % 3],
            "side": ("B", "S")[at % 2],
            "quantity": numbers.randint(1, 9_999),
            "price": Decimal(numbers.randint(1_000_000, 99_999_999)).scaleb(-6),
            "amount": Decimal(numbers.randint(100_000, 99_999_999)).scaleb(-2),
            "trader": ("ana", "bo")[at % 2],
        }
        for at in range(ROWS)
    ]


def german(number: Decimal) -> str:
    return f"{number:,.2f}".replace(",", "x").replace(".", ",").replace("x", ".")


def write_book(rows: list[dict[str, object]], path: str = "trades.csv") -> None:
    lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    Path(path).write_text("\n".join([*lines, ""]))


def write_custodian(rows: list[dict[str, object]], path: str = "custodian.csv") -> None:
    """Other names, dates, decimal marks and roundings, a heading and a footer with totals."""
    lines = ["Bestand per 31.01.2026", "TradeRef;Handelstag;Wrg;BS;Stk;Kurs;Betrag"]
    for row in reversed(rows):
        day = str(row["trade_date"])
        amount = row["amount"]
        price = row["price"]
        assert isinstance(amount, Decimal)
        assert isinstance(price, Decimal)
        lines.append(
            f"{row['trade_id']};{day[8:]}.{day[5:7]}.{day[:4]};{row['currency']};"
            f"{ {'B': 'Kauf', 'S': 'Verkauf'}[str(row['side'])] };{row['quantity']};"
            f"{german(price)};{german(amount)}"
        )
    lines.append('"Summe; \u20ac";;;;;;' + german(Decimal("123456.78")))
    Path(path).write_bytes("\r\n".join([*lines, ""]).encode("windows-1252"))


def test_a_banks_case_is_matched_by_the_job_as_it_was_written(capsys: Shown) -> None:
    write_book(trades())
    write_custodian(trades())
    assert run(["init", "trades.csv", "custodian.csv"]) == 0
    shown = capsys.readouterr().out
    assert "next      datarecs compare trades-vs-custodian.recon.yaml" in shown
    written = Path("trades-vs-custodian.recon.yaml").read_text()
    for line in (
        'delimiter: ";"',
        "encoding: ",
        'decimal: ","',
        'thousands: "."',
        'formats: {Handelstag: "%d.%m.%Y"}',
        "skip: {first: 1, last: 1}",
        "dimensions: [trade_id]",
        "trade_id: TradeRef",
        "trade_date: Handelstag",
        "amount: Betrag",
        "price: Kurs",
        '{name: price, tolerances: [{type: ABSOLUTE, value: "0.005"}]}',
        "not compared, no matching column: side, trader of trades",
    ):
        assert line in written, line
    assert run(["compare", "trades-vs-custodian.recon.yaml"]) == 0
    assert run(["validate", "trades-vs-custodian.recon.yaml"]) == 0


def test_words_case_times_and_days_are_proposed_as_the_samples_show_them() -> None:
    ours = ["id,side,status,at,day,amount"]
    theirs = ["# as of today", "id,Side,Status,at,day,Amount"]
    for at in range(1, 25):
        side = ("B", "S")[at % 2]
        ours.append(f"{at},{side},Open,2026-01-05 10:00:{at:02}.25,2026-01-{at:02},{at}.10")
        word = {"B": "BUY", "S": "SELL"}[side]
        moment = f"2026-01-05 10:00:{at:02}"
        amount = "n/a" if at == 3 else f"{at}.11"
        theirs.append(f"{at},{word},OPEN ,{moment},2026-01-{at:02} 23:59:00,{amount}")
    Path("ours.csv").write_text("\n".join(ours))
    Path("theirs.csv").write_text("\n".join(theirs))
    assert run(["init", "ours.csv", "theirs.csv"]) == 0
    written = Path("ours-vs-theirs.recon.yaml").read_text()
    for line in (
        '{name: side, map: {theirs: {"BUY": "B", "SELL": "S"}}}',
        "status: {trim: both, case: fold}",
        '{name: at, tolerances: [{type: DURATION, value: "PT1S"}]}',
        'day: {expr: "CAST(day AS date)"}',
        '{name: amount, tolerances: [{type: ABSOLUTE, value: "0.01"}]}',
        'null_words: ["n/a"]',
        'skip: {prefixes: ["#"]}',
    ):
        assert line in written, line
    assert run(["compare", "ours-vs-theirs.recon.yaml"]) == 1


def test_a_difference_is_still_a_difference(capsys: Shown) -> None:
    rows = trades()
    write_book(rows)
    rows[5]["amount"] = Decimal("1.00")
    write_custodian(rows)
    assert run(["init", "trades.csv", "custodian.csv", "--out", "jobs/a.yaml"]) == 0
    assert run(["compare", "jobs/a.yaml"]) == 1
    assert "T00005" in capsys.readouterr().out


def test_two_columns_are_a_key_where_no_single_one_is(capsys: Shown) -> None:
    lines = [f"{order},{line},{order * line}" for order in range(20) for line in range(1, 6)]
    Path("a.csv").write_text("\n".join(["order_no,line,qty", *lines, ""]))
    Path("b.csv").write_text("\n".join(["OrderNo,LineNo,Qty", *reversed(lines), ""]))
    assert run(["init", "a.csv", "b.csv"]) == 0
    assert "key       order_no and line: 100 of 100 values" in capsys.readouterr().out
    assert run(["compare", "a-vs-b.recon.yaml"]) == 0


def test_files_of_every_format_are_sampled(capsys: Shown) -> None:
    rows = [{"id": at, "v": f"x{at}"} for at in range(9)]
    pq.write_table(pa.Table.from_pylist(rows), "a.parquet")
    Path("b.jsonl.gz").write_bytes(
        gzip.compress(
            "".join(f'{{"id": {row["id"]}, "v": "{row["v"]}"}}\n' for row in rows).encode()
        )
    )
    assert run(["init", "a.parquet", "b.jsonl.gz"]) == 0
    assert "read      b-jsonl: all 9 rows read, 2 columns" in capsys.readouterr().out
    assert run(["compare", "a-vs-b-jsonl.recon.yaml"]) == 0


def test_a_large_file_is_read_up_to_a_limit_and_that_is_said(capsys: Shown) -> None:
    lines = [f"{at},{at * 2}" for at in range(60_000)]
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("\n".join(["id,n", *lines, ""]))
    assert run(["init", "a.csv", "b.csv"]) == 0
    assert "read      a: the first 49,999 rows read" in capsys.readouterr().out


def test_a_key_that_the_user_names_is_taken(capsys: Shown) -> None:
    Path("a.csv").write_text("who,n\nana,1\nbo,2\n")
    Path("b.csv").write_text("name,m\ncy,1\ndi,2\n")
    assert run(["init", "a.csv", "b.csv"]) == 2
    assert "name the key with --key NAME_IN_A=NAME_IN_B" in capsys.readouterr().err
    assert run(["init", "a.csv", "b.csv", "--key", "who=name"]) == 0
    assert run(["compare", "a-vs-b.recon.yaml"]) == 1
    assert run(["init", "a.csv", "b.csv", "--key", "who=nme", "--force"]) == 2
    assert "b has no column nme; it has name, m" in capsys.readouterr().err


def test_a_file_is_replaced_by_force_alone(capsys: Shown) -> None:
    Path("a.csv").write_text("id,n\n1,1\n2,2\n")
    Path("b.csv").write_text("id,n\n1,1\n2,2\n")
    Path("mine.yaml").write_text("mine")
    assert run(["init", "a.csv", "b.csv", "--out", "mine.yaml"]) == 2
    assert Path("mine.yaml").read_text() == "mine"
    assert "replace it with --force" in capsys.readouterr().err
    assert run(["init", "a.csv", "b.csv", "--out", "mine.yaml", "--force"]) == 0
    assert "kind: ReconciliationJob" in Path("mine.yaml").read_text()
    Path("folder").mkdir()
    assert run(["init", "a.csv", "b.csv", "--out", "folder"]) == 2


GOOD = b"id,n\n1,1\n2,2\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no line|empty"),
        (b"\n\n", "empty"),
        (b"id,n\n", "no rows"),
        (b"only\n", "no rows"),
        (b"x\ny\nz\n", "name the key"),
        (b"a,a\n1,2\n", "all columns have the same name"),
        (b"id,n\n\x00\x01,\x02\n", "NUL bytes"),
        (bytes(range(1, 256)) * 20, ""),
        (b"PK\x03\x04zip", "a zip archive"),
        (b'id,n\n1,"2\n', ""),
        (b"id,n\n1,2,3\n4\n", ""),
        (b"id;n\r1;1\r2;2\r", ""),
        (b"k,m\n8,7\n9,7\n", "name the key"),
        ("id,n\n1,1\n".encode("utf-16le"), ""),
        ("id,n\n1,1\n".encode("utf-32"), "UTF-32"),
    ],
)
def test_odd_files_end_in_a_sentence(capsys: Shown, content: bytes, said: str) -> None:
    Path("a.csv").write_bytes(GOOD)
    Path("b.csv").write_bytes(content)
    for places in (("a.csv", "b.csv"), ("b.csv", "a.csv")):
        code = run(["init", *places, "--force"])
        shown = capsys.readouterr().err
        assert "defect" not in shown
        assert "Traceback" not in shown
        assert (code == 0) == (not shown.strip())
        if said:
            assert code != 0
            assert any(each in shown for each in said.split("|"))


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (("a.csv", "a.csv"), "a.csv is named twice"),
        (("a.csv", "./a.csv"), "is named twice"),
        (("a.csv", "missing.csv"), "no such file"),
        (("a.csv", "empty"), "the folder has no file"),
        (("a.csv", "a.txt"), "cannot be compared"),
        (("a.csv", "pg:public.t"), "connection pg is not declared"),
        (("a.csv", "postgresql://x"), "must have user, host, database and table"),
        (("a.csv", "postgresql://u@h:no/d?table=t"), "cannot be read"),
        (("a.csv", "postgresql://u@h/d?table=t&ssl=1"), "unknown in the address: ssl"),
        (
            ("a.csv", "postgresql://u@db.example.com/books?table=t"),
            "DATARECS_CONN_DEFAULT_PG_BOOKS",
        ),
    ],
)
def test_odd_places_end_in_a_sentence(capsys: Shown, places: tuple[str, str], said: str) -> None:
    Path("a.csv").write_bytes(GOOD)
    Path("a.txt").write_bytes(GOOD)
    Path("empty").mkdir()
    assert run(["init", *places]) != 0
    shown = capsys.readouterr().err
    assert said in shown
    assert "defect" not in shown


def test_a_password_of_an_address_is_written_nowhere(
    capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.csv").write_bytes(GOOD)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    address = "postgresql://u:pa55word@127.0.0.1:1/books?table=t&sslmode=disable"
    assert run(["init", "a.csv", address]) != 0
    assert "pa55word" not in "".join(capsys.readouterr())
    assert run(["init", address, address]) == 2
    assert "pa55word" not in "".join(capsys.readouterr())


def test_names_that_yaml_would_read_as_something_else_are_quoted() -> None:
    header = '"yes","a: b","#c","d ""e"""'
    rows = [f"{at},{at * 3},x{at},{at}.5" for at in range(1, 9)]
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("\n".join([header, *rows, ""]))
    assert run(["init", "a.csv", "b.csv"]) == 0
    assert run(["compare", "a-vs-b.recon.yaml"]) == 0


@pytest.mark.parametrize("name", ["", "x" * 300, "two\nlines", "a\tb", "nel\u0085x"], ids=ascii)
def test_a_column_that_no_job_can_name_is_left_out(name: str, capsys: Shown) -> None:
    """A header that ends in a delimiter has such a one."""
    for path in ("one.csv", "two.csv"):
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "amount", name])
            writer.writerows([at, at * 3, f"v{at}"] for at in range(20))
    assert run(["init", "one.csv", "two.csv", "--out", "job.yaml"]) == 0
    assert "left out" in capsys.readouterr().out
    assert run(["compare", "job.yaml"]) == 0
    assert "20 of 20 groups" in capsys.readouterr().out
