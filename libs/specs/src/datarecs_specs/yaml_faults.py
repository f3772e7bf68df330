"""Faults of syntax in words of the author: what is wrong in which line, and what to write instead.

Separate from `yaml_source`, which reads: the parser's sentences are about its tokens, and its place
is often where it gave up, not where the fault is. No text of the document is repeated.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ruamel.yaml.error import MarkedYAMLError, StringMark

from datarecs_core.errors.faults import visible
from datarecs_core.errors.spec import SpecCode
from datarecs_specs.nodes import START, Mark, TextFault

_CLOSING = {"}": "{", "]": "["}
_ONE_COLUMN = "begin all keys of a mapping in one column, and all items of a list"
IN_QUOTES = "put the value in quotes"
_SHOWN = 64
"""Characters of a sentence of the parser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    message: str
    hint: str = ""
    at_begin: bool = False
    """Marked is the begin of the part that is not finished, not where the parser stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stop:
    """Where the parser stopped."""

    wanted: re.Match[str]
    """Its sentence, as a rule matches it."""
    began_in: int
    """Line of the part it was in, from 1."""
    before: str
    """Text of the line before the place."""
    begin: str
    """The line in which the part begins, from its first character on."""


def syntax_fault(text: str, error: MarkedYAMLError) -> TextFault:
    """The fault of a text that the parser refuses."""
    problem = " ".join((error.problem or "not YAML").split())
    place = error.problem_mark or error.context_mark
    begin = error.context_mark or place
    words = _words(text, f"{error.context or ''}: {problem}", place, begin)
    if words is None:
        words = _Words(message=visible(problem[:_SHOWN]))
    mark = begin if words.at_begin else place
    return TextFault(
        code=SpecCode.YAML_SYNTAX,
        mark=START if mark is None else Mark(mark.line + 1, mark.column + 1),
        message=words.message,
        hint=words.hint,
    )


def _words(
    text: str, sentence: str, place: StringMark | None, begin: StringMark | None
) -> _Words | None:
    if place is None or begin is None:
        return None
    for pattern, rule in _RULES:
        if wanted := pattern.search(sentence):
            return rule(
                _Stop(
                    wanted=wanted,
                    began_in=begin.line + 1,
                    before=_line(text, place)[: place.column],
                    begin=_line(text, begin)[begin.column :],
                )
            )
    return None


def _line(text: str, mark: StringMark) -> str:
    # The reader ends lines at these characters, and at no others.
    lines = re.split(r"\r\n|[\r\n\x85\u2028\u2029]", text)
    return lines[mark.line] if mark.line < len(lines) else ""


def _unclosed(stop: _Stop) -> _Words:
    closing = stop.wanted["closing"]
    opening = _CLOSING[closing]
    if stop.wanted["next"] == "<stream end>":
        message = f"the `{opening}` is not closed"
        return _Words(message=message, hint=f"write the missing `{closing}`", at_begin=True)
    return _Words(
        message=f"a `,` or `{closing}` is missing before this place",
        hint=f"check the part that begins with `{opening}` in line {stop.began_in}",
    )


def _indentation(_: _Stop) -> _Words:
    return _Words(message="the line is indented differently from those above", hint=_ONE_COLUMN)


def _key_in_list(stop: _Stop) -> _Words:
    return _Words(
        message=f"a key among the items of the list that begins in line {stop.began_in}",
        hint="begin an item with `- `; write a key of the mapping around the list in the column of "
        "its other keys, and one of the item below its first key",
    )


def _item_in_mapping(stop: _Stop) -> _Words:
    return _Words(
        message=f"an item among the keys of the mapping that begins in line {stop.began_in}",
        hint="write a list below the key that it belongs to",
    )


def _behind_value(_: _Stop) -> _Words:
    return _Words(message="text after the end of a value in quotes", hint=f"{IN_QUOTES} as a whole")


def _unopened(stop: _Stop) -> _Words:
    closing = stop.wanted["closing"]
    return _Words(
        message=f"a `{closing}` without a `{_CLOSING[closing]}`",
        hint=f"remove it, or {IN_QUOTES} if it is text",
    )


def _second_colon(stop: _Stop) -> _Words:
    if re.search(r":\s", stop.before):
        return _Words(message="a second `: ` in one line", hint=f"{IN_QUOTES} if it has a colon")
    return _Words(
        message="a key below a value",
        hint=f"{_ONE_COLUMN}; write a blank after the colon of the line above",
    )


def _no_key(stop: _Stop) -> _Words:
    has_colon = ":" in stop.begin
    hint = "write a blank after the colon" if has_colon else "write `key: value`"
    return _Words(message="a line without `key: value`", hint=hint, at_begin=True)


def _open_quote(_: _Stop) -> _Words:
    hint = "write the missing quote"
    return _Words(message="the quote is not closed", hint=hint, at_begin=True)


def _reserved(stop: _Stop) -> _Words:
    if stop.wanted["character"] == r"'\t'":
        return _Words(message="a tab; indent with spaces", hint="indent with spaces")
    return _Words(message="no value begins with this character", hint=IN_QUOTES)


def _reference(_: _Stop) -> _Words:
    return _Words(
        message="a value that begins with `*` or `&` refers to another one", hint=IN_QUOTES
    )


def _escape(_: _Stop) -> _Words:
    return _Words(
        message="an unknown escape in double quotes", hint="use single quotes, or write `\\\\`"
    )


def _list_behind_key(_: _Stop) -> _Words:
    return _Words(message="an item of a list behind a key", hint="begin the list in the next line")


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Stop], _Words]], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"expected ',' or '(?P<closing>[}\]])', but got '(?P<next>.*)'", _unclosed),
        (r"but found '(?P<closing>[}\]])'", _unopened),
        (r"but found '<block (mapping|sequence) start>'", _indentation),
        (r"collection: expected <block end>, but found '\?'", _key_in_list),
        (r"mapping: expected <block end>, but found '-'", _item_in_mapping),
        (r"expected <block end>, but found '<scalar>'", _behind_value),
        (r"mapping values are not allowed", _second_colon),
        (r"could not find expected ':'", _no_key),
        (r"quoted scalar: found unexpected end", _open_quote),
        (r"found character (?P<character>.*) that cannot start", _reserved),
        (r"scanning an (alias|anchor)", _reference),
        (r"unknown escape character", _escape),
        (r"sequence entries are not allowed", _list_behind_key),
    )
)
"""Sentences of the parser, with what it was doing before the colon."""
