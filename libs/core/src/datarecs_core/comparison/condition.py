"""The part of `where` that needs no SQL engine: comparisons, IN, BETWEEN, IS NULL, AND, OR, NOT.

The planner asks which columns a condition names, the oracle evaluates it; a condition beyond this
part is still legal for engines that speak SQL. Values are those the source delivers, before casts
and rules; logic is three-valued, only TRUE lets a row pass.
"""

import re
from dataclasses import dataclass, field
from decimal import Decimal

from datarecs_core.comparison.canonical import NULL, Tag, Value, number, text
from datarecs_core.comparison.condition_tree import (
    SIGNS,
    AnyOf,
    Bare,
    Column,
    Compared,
    Condition,
    ConditionNotCoveredError,
    Constant,
    IsNull,
    Negated,
    Operand,
    all_of,
)
from datarecs_core.comparison.forms import read_date, read_moment

__all__ = [
    "ConditionNotCoveredError",
    "ParsedCondition",
    "may_name",
    "named_columns",
    "parse_condition",
]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>\d+(?:\.\d+)?)
      | (?P<text>'(?:[^'\\]|''|\\['\\])*')
      | `(?P<quoted>(?:[^`]|``)+)`
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign><=>|<=|>=|<>|!=|==|[=<>(),-])
    )""",
    re.VERBOSE,
)
_LITERAL_WORDS = frozenset({"NULL", "TRUE", "FALSE", "DATE", "TIMESTAMP"})
_WORDS = _LITERAL_WORDS | {"AND", "OR", "NOT", "IN", "IS", "BETWEEN"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    written: str

    @property
    def word(self) -> str:
        """The keyword or sign in upper case; empty for names and literals."""
        if self.kind == "sign" or (self.kind == "word" and self.written.upper() in _WORDS):
            return self.written.upper()
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCondition:
    """A condition with the columns it names."""

    columns: frozenset[str]
    holds: Condition


def parse_condition(sql: str) -> ParsedCondition:
    """Read a condition.

    Raises:
        ConditionNotCoveredError: functions, arithmetic, LIKE, CASE and the like.
    """
    reader = _Reader(tokens=_tokens(sql))
    condition = reader.disjunction()
    if reader.peek() is not None:
        raise ConditionNotCoveredError(f"not covered from {reader.next().written!r} on")
    return ParsedCondition(columns=frozenset(reader.columns), holds=condition)


def named_columns(sql: str | None) -> frozenset[str] | None:
    """Columns a condition names; None when only an SQL engine could tell."""
    if sql is None:
        return frozenset()
    try:
        return parse_condition(sql).columns
    except ConditionNotCoveredError:
        return None


def may_name(sql: str, column: str) -> bool:
    """Whether a condition of whatever SQL may mean the column; in a call, `*` means every one."""
    named = named_columns(sql)
    if named is not None:
        return column in named
    written = re.escape(column.replace("`", "``"))
    return "*" in sql or re.search(rf"(?<!\w){written}(?!\w)", sql) is not None


def _tokens(sql: str) -> list[_Token]:
    found: list[_Token] = []
    at, end = 0, len(sql.rstrip())
    while at < end:
        match = _TOKEN.match(sql, at)
        if match is None:
            blanks = len(sql[at:]) - len(sql[at:].lstrip())
            raise ConditionNotCoveredError(f"not covered at character {at + blanks + 1}")
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind]))
        at = match.end()
    return found


@dataclass(slots=True)
class _Reader:
    """Recursive descent; every method reads one rule of the grammar."""

    tokens: list[_Token]
    at: int = 0
    columns: set[str] = field(default_factory=set)

    def peek(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next(self) -> _Token:
        token = self.peek()
        if token is None:
            raise ConditionNotCoveredError("the condition ends too early")
        self.at += 1
        return token

    def take(self, *words: str) -> str:
        """The next keyword when it is one of these, else an empty text."""
        token = self.peek()
        if token is None or token.word not in words:
            return ""
        self.at += 1
        return token.word

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise ConditionNotCoveredError(f"{word} is missing")

    def disjunction(self) -> Condition:
        parts = [self.conjunction()]
        while self.take("OR"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def conjunction(self) -> Condition:
        parts = [self.negation()]
        while self.take("AND"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else all_of(*parts)

    def negation(self) -> Condition:
        return Negated(self.negation()) if self.take("NOT") else self.predicate()

    def predicate(self) -> Condition:
        if self.take("("):
            inner = self.disjunction()
            self.expect(")")
            return inner
        operand = self.operand()
        if self.take("IS"):
            negated = bool(self.take("NOT"))
            self.expect("NULL")
            return Negated(IsNull(operand)) if negated else IsNull(operand)
        negated = bool(self.take("NOT"))
        condition = self.listed(operand) or self.between(operand)
        if condition is None:
            if negated:
                raise ConditionNotCoveredError("NOT stands before IN or BETWEEN here")
            return self.comparison(operand)
        return Negated(condition) if negated else condition

    def listed(self, operand: Operand) -> Condition | None:
        if not self.take("IN"):
            return None
        self.expect("(")
        choices = [self.operand()]
        while self.take(","):
            choices.append(self.operand())
        self.expect(")")
        return AnyOf(tuple(Compared("=", operand, choice) for choice in choices))

    def between(self, operand: Operand) -> Condition | None:
        if not self.take("BETWEEN"):
            return None
        low = Compared(">=", operand, self.operand())
        self.expect("AND")
        return all_of(low, Compared("<=", operand, self.operand()))

    def comparison(self, operand: Operand) -> Condition:
        sign = self.take(*SIGNS)
        return Compared(sign, operand, self.operand()) if sign else Bare(operand)

    def operand(self) -> Operand:
        negative = self.take("-")
        token = self.next()
        if token.kind == "number":
            return Constant(number(Decimal(f"{negative}{token.written}")))
        if negative:
            raise ConditionNotCoveredError("a minus stands before a number here")
        if token.kind == "text":
            return Constant(text(_unquoted(token.written)))
        if token.word in _LITERAL_WORDS:
            return Constant(self.literal(token.word))
        if token.word:
            raise ConditionNotCoveredError(f"{token.written!r} is not covered")
        return self.column(token)

    def literal(self, word: str) -> Value:
        if word in {"TRUE", "FALSE"}:
            return Value(Tag.BOOL, word == "TRUE")
        if word == "NULL":
            return NULL
        written = _unquoted(self.next().written)
        value = read_date(written) if word == "DATE" else read_moment(written)
        if value is None:
            raise ConditionNotCoveredError(f"{word} needs an ISO 8601 text")
        return value

    def column(self, token: _Token) -> Operand:
        following = self.peek()
        if token.kind == "word" and following is not None and following.written == "(":
            raise ConditionNotCoveredError(f"the function {token.written} is not covered")
        name = token.written.replace("``", "`")
        self.columns.add(name)
        return Column(name)


def _unquoted(written: str) -> str:
    return re.sub(r"''|\\(['\\])", lambda found: found[1] or "'", written[1:-1])
