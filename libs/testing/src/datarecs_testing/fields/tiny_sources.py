"""Small files and a small lake in which each field of a job can make a difference.

The three sources differ on purpose, each column in one respect: white space, case, a NULL, a digit.
Separate from the probes because one set of rows serves all of them.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

D = Decimal
_AT = datetime(2026, 1, 31, 12, 0, 0, 123_400)  # noqa: DTZ001  a local time, as sources hold it
NAN = float("nan")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("grp", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("fine", pa.decimal128(12, 4)),
        ("padded", pa.string()),
        ("cased", pa.string()),
        ("accent", pa.string()),
        ("blank", pa.string()),
        ("nothing", pa.int64()),
        ("nan", pa.float64()),
        ("single", pa.float64()),
        ("moment", pa.timestamp("us")),
        ("day", pa.date32()),
        ("document", pa.string()),
        ("code", pa.string()),
        ("key", pa.string()),
    ]
)
_PLAIN = ("y", "b", "f", "t", 5, 1.0, 0.5, _AT)
ONE = [
    (1, "a", D("10.00"), D("1.1049"), " x", "Ab", "\u00e9", "", 0, NAN, 0.1, _AT),
    (2, "a", D("20.00"), D("2.0000"), *_PLAIN),
    (3, "b", D("30.00"), D("3.0000"), *_PLAIN),
    (3, "b", D("31.00"), D("3.5000"), *_PLAIN),
    (9, "d", D("1.00"), D("1.0000"), *_PLAIN),
    (10, "e", D("100.00"), D("1.0000"), *_PLAIN),
    (11, "f", D("20.00"), D("1.0000"), *_PLAIN),
]
TWO = [
    (1, "a", D("10.00"), D("1.1000"), "x", "aB", "e\u0301", None, None, NAN, 0.1, _AT),
    (2, "a", D("20.01"), D("2.0000"), *_PLAIN),
    (4, "c", D("40.00"), D("4.0000"), *_PLAIN),
    (9, "d", D("1.00"), D("1.0000"), *_PLAIN),
    (10, "e", D("110.00"), D("1.0000"), *_PLAIN),
    (11, "f", D("20.01"), D("1.0000"), *_PLAIN),
]
THREE = [
    (1, "a", D("10.02"), D("1.1000"), "x", "aB", "\u00e9", "", 0, NAN, 0.1, _AT),
    (2, "a", D("20.02"), D("2.0000"), *_PLAIN),
    (9, "d", D("1.00"), D("1.0000"), *_PLAIN),
    (10, "e", D("110.00"), D("1.0000"), *_PLAIN),
    (11, "f", D("20.02"), D("1.0000"), *_PLAIN),
]
_LATE = {"one": timedelta(microseconds=500), "two": timedelta(), "three": timedelta()}
_DOCUMENTS = {"one": "[1, 2]", "two": "[2, 1]", "three": "[2, 1]"}
_CODES = {"one": "P", "two": "PAID", "three": "PAID"}
_DAYS = {"one": date(2026, 1, 31), "two": date(2026, 2, 1), "three": date(2026, 1, 31)}
Row = tuple[object, ...]
SOURCES: Mapping[str, Sequence[Row]] = {"one": ONE, "two": TWO, "three": THREE}


def write_sources(folder: Path) -> None:
    """One, two and three in every format that this release reads, and the files of odd options."""
    for name, rows in SOURCES.items():
        table = _table(name, rows)
        pq.write_table(table, folder / f"{name}.parquet")
        _write_text(folder / name, table)
    for other in ("other", "more"):
        (folder / other).mkdir()
        pq.write_table(_table("one", ONE[:2]), folder / other / "one.parquet")
        _write_text(folder / other / "one", _table("one", ONE[:2]))
    _write_odd(folder)


def write_lake(folder: Path, closing: ExitStack) -> None:
    """Catalog `lake` with three tables, `books.one` in two commits, and `pond` with one table.

    The first commit of `books.one` has the tag `first`.
    """
    (folder / "lake").mkdir()
    lake = _catalog(folder / "lake", "lake", closing)
    lake.create_table("books.other", SCHEMA).append(_table("one", ONE[:1]))
    wide = _wide()
    lake.create_table("books.big", wide.schema).append(wide)
    table = lake.create_table("books.one", SCHEMA)
    table.append(_table("one", ONE[:2]))
    table.manage_snapshots().create_tag(table.history()[-1].snapshot_id, "first").commit()
    table.append(_table("one", ONE[2:]))
    pond = _catalog(folder / "lake", "pond", closing)
    pond.create_table("books.one", SCHEMA).append(_table("one", ONE[:1]))


def _catalog(folder: Path, name: str, closing: ExitStack) -> SqlCatalog:
    catalog = SqlCatalog(
        name, uri=f"sqlite:///{folder}/{name}.db", warehouse=f"file://{folder}/{name}"
    )
    closing.callback(catalog.close)
    catalog.create_namespace("books")
    return catalog


def _table(name: str, rows: Sequence[Row]) -> pa.Table:
    moment = _AT + _LATE[name]
    whole = [
        (*row[:-1], moment, _DAYS[name], _DOCUMENTS[name], _CODES[name], "k" if at else None)
        for at, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in whole], schema=SCHEMA
    )


def _write_text(stem: Path, table: pa.Table) -> None:
    """As CSV and as lines of JSON, without NaN, which neither has."""
    rows = [{**row, "nan": None} for row in table.to_pylist()]
    lines = [",".join(table.column_names)]
    lines += [",".join(_quoted(value) for value in row.values()) for row in rows]
    stem.with_suffix(".csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plain = [json.dumps(row, default=_plain) for row in rows]
    stem.with_suffix(".json").write_text("\n".join(plain) + "\n", encoding="utf-8")


def _quoted(value: object) -> str:
    if value is None:
        return ""
    text = value.isoformat() if isinstance(value, (date, datetime)) else str(value)
    return f'"{text}"' if isinstance(value, str) else text


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else str(value)


def _wide() -> pa.Table:
    return pa.table({"id": list(range(100)), "word": [f"{number:040}" for number in range(100)]})


def _write_odd(folder: Path) -> None:
    """Files that read otherwise under one option alone."""
    odd = {
        "delimiter": "id,x;y\n1,2;3\n",
        "quote": "id,word\n1,'x'\n",
        "escape": 'id,word\n1,"a\\"b"\n',
        "header": "id,word\n1,x\n",
        "null": "id,word\n1,NA\n",
        "multiline": 'id,word\n1,"a\nb"\n',
        "schema": "id,word\n1,007\n",
        "decimal": "id;word\n1;2,5\n",
        "thousands": "id;word\n1;1.234\n",
        "day": "id,word\n1,31.01.2026\n",
        "moment": "id,word\n1,31.01.2026 10:00\n",
        "encoding": "id,word\n1,\u00e9\n",
    }
    for name, text in odd.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    (folder / "encoding.json").write_text('{"id": 1, "word": "\u00e9"}\n', encoding="utf-8")
    (folder / "schema.json").write_text('{"id": 1, "word": 7}\n', encoding="utf-8")
    big = "".join(f"{number},{'x' * 40}\n" for number in range(100))
    (folder / "big.csv").write_text(f"id,word\n{big}", encoding="utf-8")
    lines = "".join(json.dumps({"id": number, "word": "x" * 40}) + "\n" for number in range(100))
    (folder / "big.json").write_text(lines, encoding="utf-8")
    pq.write_table(_wide(), folder / "big.parquet")
    for day in ("1", "2"):
        (folder / "parts" / f"part={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(day)]}), folder / "parts" / f"part={day}" / "f.parquet")
    (folder / "merged").mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "merged" / "1.parquet")
    pq.write_table(pa.table({"id": [2], "word": ["x"]}), folder / "merged" / "2.parquet")
    (folder / "empty").mkdir()
    pq.write_table(_table("one", [])[:0], folder / "empty" / "one.parquet")
    single = SCHEMA.set(SCHEMA.get_field_index("single"), pa.field("single", pa.float32()))
    pq.write_table(_table("two", TWO).cast(single), folder / "single.parquet")
    strict = SCHEMA.set(1, pa.field("grp", pa.string(), nullable=False))
    pq.write_table(_table("two", TWO).cast(strict), folder / "strict.parquet")
    turned = _table("two", TWO).select([*reversed(SCHEMA.names)])
    pq.write_table(turned, folder / "turned.parquet")
