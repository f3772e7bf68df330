"""Label selectors: the text of `label_selector`, read into requirements that labels meet.

Pure. One grammar for lists, watches and the command line; the databases translate the requirements
to SQL, and `matches` is what their rows must agree with.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError

MAX_TEXT = 1024
MAX_REQUIREMENTS = 16
MAX_VALUES = 50
_KEY = (
    r"(?:[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
_VALUE = r"(?:[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?"
_PRESENCE = re.compile(rf"(!?)\s*({_KEY})")
_EQUALITY = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_SEPARATOR = re.compile(r",(?![^()]*\))")
_FORMS = "key=value, key!=value, key in (a, b), key notin (a, b), key or !key, joined by commas"


class SelectorError(DatarecsError):
    """The text is no label selector."""

    code = ApiCode.INVALID_INPUT

    def __init__(self, reason: str) -> None:
        super().__init__(f"label selector: {reason}")
        self.reason = reason
        self.fix = f"write {_FORMS}"


class Operator(StrEnum):
    IN = "in"
    """The label exists and has one of the values."""
    NOT_IN = "notin"
    """The label does not exist, or has another value."""
    EXISTS = "exists"
    NOT_EXISTS = "!exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one label must be."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()
    """Of IN and NOT_IN, at least one."""

    def admits(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.NOT_EXISTS:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels must meet every requirement; without requirements it selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(one.admits(labels) for one in self.requirements)


EVERYTHING = Selector()


def parse_selector(text: str) -> Selector:
    """Read a selector; an empty text selects everything.

    Raises:
        SelectorError: it is too long, or a part has none of the forms; the message names the part.
    """
    if len(text) > MAX_TEXT:
        raise SelectorError(f"{len(text)} characters; at most {MAX_TEXT} are allowed")
    if not text.strip():
        return EVERYTHING
    parts = _SEPARATOR.split(text)
    if len(parts) > MAX_REQUIREMENTS:
        raise SelectorError(f"{len(parts)} requirements; at most {MAX_REQUIREMENTS} are allowed")
    return Selector(tuple(_requirement(one.strip()) for one in parts))


def _requirement(text: str) -> Requirement:
    if not text:
        raise SelectorError("a requirement is empty; remove the extra comma")
    if parts := _SET.fullmatch(text):
        return _set_requirement(text, *parts.groups())
    if parts := _EQUALITY.fullmatch(text):
        key, sign, value = parts.groups()
        operator = Operator.NOT_IN if sign == "!=" else Operator.IN
        return Requirement(key=key, operator=operator, values=frozenset({value}))
    if parts := _PRESENCE.fullmatch(text):
        absent, key = parts.groups()
        return Requirement(key=key, operator=Operator.NOT_EXISTS if absent else Operator.EXISTS)
    raise SelectorError(f"{text[:80]!r} is not understood")


def _set_requirement(text: str, key: str, operator: str, listed: str) -> Requirement:
    values = [one.strip() for one in listed.split(",")]
    if len(values) > MAX_VALUES:
        raise SelectorError(f"{len(values)} values for {key}; at most {MAX_VALUES} are allowed")
    for value in values:
        if not re.fullmatch(_VALUE, value):
            raise SelectorError(f"{value[:80]!r} in {text[:80]!r} is no value of a label")
    return Requirement(key=key, operator=Operator(operator), values=frozenset(values))
