"""An entry of the allow-list: its arguments, its result, and its text per database.

Separate from the table so that the table is easy to read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from datarecs_core.comparison.expressions.signatures import Signature
from datarecs_core.comparison.values.canonical import Tag, Value


class Dialect(StrEnum):
    """Of whom a text is understood."""

    DUCKDB = "duckdb"
    POSTGRES = "postgres"


Writer = Callable[[Sequence[str]], str]
"""From the texts of the arguments to the text of the call."""
Check = Callable[[Value | None], str | None]
"""The fault of a literal; the argument is None for anything but a literal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One operator or function."""

    name: str
    group: str
    syntax: str
    """As people write it."""
    meaning: str
    example: str
    count: tuple[int, int | None]
    """Least and most arguments."""
    result: Signature
    duckdb: Writer
    postgres: Writer
    meets: bool = False
    """Arguments are first converted to the one type that holds them all."""
    literals: Mapping[int, Check] = field(default_factory=dict)
    """Arguments that must be literals."""
    aliases: tuple[str, ...] = ()

    def written(self, dialect: Dialect, arguments: Sequence[str]) -> str:
        return (self.duckdb if dialect is Dialect.DUCKDB else self.postgres)(arguments)


def whole_number(least: int, most: int) -> Check:
    def check(value: Value | None) -> str | None:
        content = value.content if value is not None and value.tag is Tag.NUMBER else None
        is_whole = isinstance(content, Decimal) and content == content.to_integral_value()
        if isinstance(content, Decimal) and is_whole and least <= content <= most:
            return None
        return f"it takes a whole number from {least} to {most}, as a literal"

    return check


def some_text(value: Value | None) -> str | None:
    is_some = value is not None and value.tag is Tag.TEXT and value.content
    return None if is_some else "it takes a text that is not empty, as a literal"


def any_text(value: Value | None) -> str | None:
    is_text = value is not None and value.tag is Tag.TEXT
    return None if is_text else "it takes a text, as a literal"


def like_pattern(value: Value | None) -> str | None:
    if value is None or value.tag is not Tag.TEXT:
        return "it takes a pattern, as a literal"
    rest = str(value.content).replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    return "a backslash must precede %, _ or another backslash" if "\\" in rest else None


def infix(sign: str) -> Writer:
    return lambda texts: f"({f' {sign} '.join(texts)})"


def form(template: str) -> Writer:
    return lambda texts: template.format(*texts)


def call(name: str) -> Writer:
    return lambda texts: f"{name}({', '.join(texts)})"


def case_form(texts: Sequence[str]) -> str:
    pairs = zip(texts[:-1:2], texts[1::2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"(CASE {whens} ELSE {texts[-1]} END)"


def in_form(texts: Sequence[str]) -> str:
    return f"({texts[0]} IN ({', '.join(texts[1:])}))"


_EMPTY: Mapping[int, Check] = {}


def entry(  # noqa: PLR0913, PLR0917  a row of the table
    name: str,
    syntax: str,
    meaning: str,
    example: str,
    count: tuple[int, int | None],
    result: Signature,
    writer: Writer,
    *,
    group: str,
    postgres: Writer | None = None,
    meets: bool = False,
    literals: Mapping[int, Check] = _EMPTY,
    aliases: tuple[str, ...] = (),
) -> Entry:
    return Entry(
        name=name,
        group=group,
        syntax=syntax,
        meaning=meaning,
        example=example,
        count=count,
        result=result,
        duckdb=writer,
        postgres=postgres or writer,
        meets=meets,
        literals=literals,
        aliases=aliases,
    )
