"""Formats of data on stdout: tables, JSON, YAML, CSV, Markdown and names, with escaping.

One module, because no value of a source may reach a terminal, a spreadsheet or a page of a code
host unescaped. Source: spec experience 3.1, security 12.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TextIO

from datarecs_cli.border import raw_stdout
from datarecs_cli.error_text import plain
from datarecs_cli.invocation import Invocation, Output, UsageFault
from datarecs_reports import figures

Item = Mapping[str, object]
_FORMULA = re.compile(r"\s*[=+\-@\t\r\n＝＋－＠]")  # noqa: RUF001  full-width signs start formulas too
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_LONGEST_CELL = 200
"""Characters of a cell of a table on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a list: its title, its member, and whether its values are numbers."""

    title: str
    member: str
    number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Symbols for one terminal: Unicode, or ASCII if the locale has only ASCII."""

    matched: str
    unmatched: str
    errored: str
    running: str
    cancelled: str
    tick: str
    dot: str
    delta: str

    def sign(self, outcome: str) -> str:
        """The symbol of a result or a status; empty for a status that is not final."""
        return {
            "MATCHED": self.matched,
            "UNMATCHED": self.unmatched,
            "ERRORED": self.errored,
            "QUEUE_ERRORED": self.errored,
            "CANCELLED": self.cancelled,
        }.get(outcome, self.running)


UNICODE = Words(
    matched="●",
    unmatched="▲",
    errored="✖",
    running="◌",
    cancelled="▬",
    tick="✓",
    dot="·",
    delta="Δ",
)
ASCII = Words(
    matched="OK",
    unmatched="DIFF",
    errored="ERR",
    running="RUN",
    cancelled="CANC",
    tick="OK",
    dot="|",
    delta="delta",
)


def words(environment: Mapping[str, str], *, encoding: str | None) -> Words:
    """Unicode only if both the locale and the stream use UTF-8.

    Python also writes UTF-8 under LC_ALL=C, so the stream alone does not show what the terminal
    can display.
    """
    locale = next(
        (environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), ""
    )
    both = (locale.lower(), (encoding or "").lower())
    return UNICODE if all("utf-8" in one or "utf8" in one for one in both) else ASCII


def stdout_words(environment: Mapping[str, str]) -> Words:
    """The symbols for the stdout of this process."""
    return words(environment, encoding=sys.stdout.encoding)


def text_of(value: object) -> str:
    """A value for people: empty for NULL, plain digits for numbers, JSON for nested values."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Mapping() | list() | tuple():
            return json.dumps(value, ensure_ascii=False, default=str)
        case _:
            return str(value)


def cell(value: object) -> str:
    """A whole text on one line, without characters that move the cursor or break lines."""
    return plain(text_of(value)).replace("\n", "\\n")


def amount(value: object) -> str:
    """A decimal with separators of thousands and all digits; other text unchanged."""
    return figures.amount(cell(value))


def table(columns: Sequence[Column], items: Sequence[Item]) -> list[str]:
    """Aligned lines with a line of titles; numbers are right-aligned.

    On a terminal a long text is cut, except in the last column, where messages are: it moves no
    other column away. `-o json` prints all texts.
    """
    most = _LONGEST_CELL if sys.stdout.isatty() else None
    rows = [[column.title for column in columns]]
    rows += [
        [
            *(_table_cell(item, column, most) for column in columns[:-1]),
            *(_table_cell(item, column, None) for column in columns[-1:]),
        ]
        for item in items
    ]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    return [
        "  ".join(
            one.rjust(width) if column.number else one.ljust(width)
            for one, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in rows
    ]


def _table_cell(item: Item, column: Column, most: int | None) -> str:
    if column.number:
        return amount(item.get(column.member))
    shown = cell(item.get(column.member))
    return shown if most is None or len(shown) <= most else f"{shown[: most - 3]}..."


def as_csv(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """One record per line, quoted as in RFC 4180; no text is a formula in a spreadsheet."""
    rows = [[column.title for column in columns]]
    rows += [[csv_text(text_of(item.get(column.member))) for column in columns] for item in items]
    return "\n".join(map(_csv_record, rows))


def _csv_record(row: Sequence[str]) -> str:
    """The line without its end; written with CR LF, so that a CR or LF in a field is quoted."""
    target = io.StringIO()
    csv.writer(target, lineterminator="\r\n").writerow(row)
    return target.getvalue().removesuffix("\r\n")


def csv_text(text: str) -> str:
    """The text, with a leading `'` if it would start a formula; plain numbers stay."""
    if _NUMBER.fullmatch(text) or not _FORMULA.match(text):
        return text
    return f"'{text}"


def as_markdown(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """A Markdown table in which pipes, links, mentions and tags of the data are escaped."""
    rows = [[column.title for column in columns], ["---"] * len(columns)]
    rows += [
        [figures.markdown_inline(text_of(item.get(column.member))) for column in columns]
        for item in items
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_yaml(document: object) -> str:
    """YAML 1.2 in block style, as for declarations."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    if not _is_printable(document):
        # YAML treats bidi controls as printable, so every text is escaped; it is on one line,
        # because a fold between two escapes would add a blank
        yaml.allow_unicode, yaml.width = False, sys.maxsize
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # a flag, typed as None
    target = io.StringIO()
    yaml.dump(document, target)
    return target.getvalue().removesuffix("\n").removesuffix("\n...")


def _is_printable(document: object) -> bool:
    match document:
        case str():
            return plain(document) == document
        case Mapping():
            return all(_is_printable(part) for pair in document.items() for part in pair)
        case list() | tuple():
            return all(_is_printable(part) for part in document)
        case _:
            return True


def exact_json(value: object) -> str:
    """JSON in which a Decimal has all its digits."""
    match value:
        case Decimal():
            return format(value, "f")
        case Mapping():
            members = (f"{json.dumps(str(key))}: {exact_json(item)}" for key, item in value.items())
            return "{" + ", ".join(members) + "}"
        case list() | tuple():
            return "[" + ", ".join(exact_json(item) for item in value) + "]"
        case _:
            return json.dumps(value)


def print_list(
    command: str, columns: Sequence[Column], items: Sequence[Item], invocation: Invocation
) -> None:
    """Print a list in the requested format; JSON has the schema `datarecs.cli.<command>/1`."""
    match invocation.output:
        case None | Output.TABLE | Output.TEXT:
            _put("\n".join(table(columns, items)))
        case Output.JSON:
            print_json(command, {"items": list(items)})
        case Output.JSONL:
            _put("\n".join(exact_json(item) for item in items))
        case Output.YAML:
            _put(as_yaml({"items": list(items)}))
        case Output.CSV:
            text, target = as_csv(columns, items), raw_stdout()
            # A program gets the bytes of a value; a terminal shows its escapes.
            _put(plain(text) if target is sys.stdout and target.isatty() else text, target)
        case Output.MD:
            _put(as_markdown(columns, items))
        case Output.NAME:
            names = ("name", "run_id", "job_id")
            _put("\n".join(cell(next(filter(None, map(item.get, names)), None)) for item in items))
        case other:
            raise UsageFault(f"-o {other} is not a format of this command")


def print_json(command: str, members: Mapping[str, object]) -> None:
    _put(exact_json({"schema": f"datarecs.cli.{command}/1", **members}))


def _put(text: str, target: TextIO | None = None) -> None:
    """Print lines, nothing if there are none; escape characters that the stream cannot encode."""
    if not text:
        return
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=target)
