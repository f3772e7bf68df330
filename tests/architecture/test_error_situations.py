"""Every code is read against a situation that raises it: its message and its page are about it.

A declaration is decoded or planned, an exception is made with marked facts, and for what only a
running part can raise the test is named that does it.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from datarecs_cli.commands.errors import catalogue
from datarecs_core.errors.base import DatarecsError, ErrorCode
from tests.architecture.error_situations import DECLARED, MADE, NAMELESS, SHOWN, Made
from tests.architecture.test_error_codes import PUBLISHED_AHEAD

ROOT = Path(__file__).resolve().parents[2]
CODES = {code.docs_id: code for code in catalogue().values()}
every_code = pytest.mark.parametrize("docs_id", sorted(CODES))
NUMBER = 4_711


@cache
def carriers() -> dict[str, list[type[DatarecsError]]]:
    """Exceptions of shipped code by the code that each of them carries."""
    for source in sorted([*ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src")]):
        for path in source.rglob("*.py"):
            is_ours = "datarecs_testing" not in path.parts
            if is_ours and re.search(r"^class \w+\(\w*Error\)", path.read_text(), re.MULTILINE):
                importlib.import_module(".".join(path.relative_to(source).with_suffix("").parts))
    classes: dict[str, list[type[DatarecsError]]] = {}
    for kind in _below(DatarecsError):
        code = kind.__dict__.get("code")
        if isinstance(code, ErrorCode) and kind.__module__.startswith("datarecs"):
            classes.setdefault(code.docs_id, []).append(kind)
    return classes


def _below(kind: type[DatarecsError]) -> Iterator[type[DatarecsError]]:
    for each in kind.__subclasses__():
        if not each.__module__.startswith("datarecs_testing"):
            yield each
            yield from _below(each)


def facts_of(kind: type[DatarecsError]) -> dict[str, Any] | None:
    """A marked value for each fact of an exception; None where one is no plain value."""
    if "__init__" not in kind.__dict__ and kind.__init__ is Exception.__init__:
        return None
    hints = get_type_hints(kind.__init__)
    facts = {
        name: _marked(name, hints.get(name, object))
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if name != "self"
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return None if any(value is None for value in facts.values()) else facts


def _marked(name: str, kind: Any) -> Any:  # noqa: ANN401  any annotation
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) in (tuple, Sequence, list):
        (inner, *_) = get_args(kind)
        one = _marked(name, inner)
        return None if one is None else (one,)
    plain: Mapping[Any, Any] = {
        str: f"the-{name}",
        int: NUMBER,
        float: float(NUMBER),
        bool: True,
        Path: Path(f"/the-{name}"),
        timedelta: timedelta(seconds=NUMBER),
    }
    return plain.get(kind)


def unnamed(kind: type[DatarecsError], facts: Mapping[str, Any]) -> list[str]:
    """Facts that the message does not say."""
    message = str(kind(**facts))
    return [
        name
        for name, value in facts.items()
        if not any(
            form in message for form in _forms(value[0] if isinstance(value, tuple) else value)
        )
    ]


def _forms(value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("",)
    if isinstance(value, int | float):
        return (str(value), f"{value:,}", f"{value:g}")
    if isinstance(value, timedelta):
        return (str(value), f"{value.total_seconds():g}", "PT1H18M31S", "1 h 18 min 31 s")
    return (str(value),)


def made(kind: type[DatarecsError]) -> Made:
    """The exception with its marked facts, and how its message has to name them."""
    if kind in MADE:
        return MADE[kind]
    if kind in NAMELESS:
        return Made(kind(), (NAMELESS[kind],))
    facts = facts_of(kind)
    assert facts, f"{kind.__name__} has facts that are no plain values: make one in MADE"
    assert unnamed(kind, facts) == [], f"{kind.__name__} does not name these facts"
    return Made(kind(**facts), ())


def messages_of(docs_id: str) -> list[str]:
    """What people read when the code is raised, as far as it is raised here."""
    messages = []
    if docs_id in DECLARED:
        situation = DECLARED[docs_id]
        lines = situation.messages(docs_id)
        assert lines, "the situation raises another code"
        named = [line for line in lines if all(name in line for name in situation.names)]
        assert named, f"none of {lines} names {situation.names}"
        messages += named
    for kind in carriers().get(docs_id, []):
        error, names = made(kind)
        assert [name for name in names if name not in str(error)] == [], str(error)
        messages.append(str(error))
    return messages


_WORDS = (
    "about all and any are also another been but cannot before does done from have here into "
    "just know more must name named names need needs none once only other others same should "
    "some such than that their them then there these this those time times under until what "
    "when where which while whose will with without would your exist exists given found message "
    "read has not one two the for its may too who was had did can again"
)
_COMMON = frozenset(_WORDS.split())
"""Words that say nothing of what a text is about."""


def topics(text: str) -> set[str]:
    """The first letters of each word that says what a text is about."""
    words = re.findall(r"[a-z]{3,}", re.sub(r"/?the-\w+", "", text.lower()))
    return {word[:5] for word in words if word not in _COMMON}


@every_code
def test_a_code_has_a_situation(docs_id: str) -> None:
    if CODES[docs_id].name in PUBLISHED_AHEAD:
        pytest.skip("raised by no release yet")
    known = docs_id in DECLARED or docs_id in SHOWN or docs_id in carriers()
    assert known, "a row in error_situations.py, or an exception that carries the code"


@every_code
def test_a_message_names_the_thing_and_the_page_is_about_it(docs_id: str) -> None:
    entry = CODES[docs_id].entry
    page = topics(f"{entry.meaning} {entry.causes} {entry.remedy}")
    for message in messages_of(docs_id):
        if said := topics(message):  # else it says what its caller passed it and no more
            assert said & page, f"{message!r} and its page share no word"


@pytest.mark.parametrize("docs_id", sorted(SHOWN))
def test_a_code_of_a_running_part_is_raised_by_the_test_that_is_named(docs_id: str) -> None:
    code, shown = CODES[docs_id], SHOWN[docs_id]
    path, _, name = shown.test.partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    (test,) = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    first = min([test.lineno, *(each.lineno for each in test.decorator_list)])
    body = "\n".join(source.splitlines()[first - 1 : test.end_lineno])
    assert re.search(rf"\b({code.name}|{docs_id})\b", body), "the test no longer raises it"
    assert shown.thing in f"{code.entry.meaning} {code.entry.remedy}"


def test_a_message_that_lacks_a_fact_is_detected() -> None:
    class SilentError(DatarecsError):
        def __init__(self, *, source: str, column: str) -> None:
            super().__init__(f"a column of {source} cannot be read")
            self.column = column

    facts = facts_of(SilentError)
    assert facts == {"source": "the-source", "column": "the-column"}
    assert unnamed(SilentError, facts) == ["column"]


def test_a_page_about_something_else_is_detected() -> None:
    page = topics("The connector this needs is not installed. Install it.")
    assert not topics("column 'tags' has the type array, which nothing compares yet") & page
