"""The forms of single values: text, words, numbers, lengths, sizes, types, zones, paths.

Each is read from source text, bounded before it is converted, and described for editors from the
same numbers. Collections and mappings are in `records`.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from datarecs_core.errors.faults import Fault, Gap, Path, did_you_mean
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.types import CanonicalType, parse_type
from datarecs_core.notation import (
    duration_text,
    parse_decimal,
    parse_duration,
    parse_size,
    size_text,
)
from datarecs_specs.nodes import Form, Node, Scalar, form_name
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.zones import zone_fault, zone_names

NUMBER_FORMS = frozenset({Form.INT, Form.FLOAT})
MAX_SQL_CHARACTERS = 65_536
MAX_TYPE_CHARACTERS = 200


def wrong_type(node: Node, at: Path, reading: Reading, wanted: str) -> Gap:
    return reading.fault(
        Fault(
            code=SpecCode.WRONG_TYPE, path=at, message=f"{form_name(node)} where {wanted} belongs"
        )
    )


def text_of(node: Node) -> str | None:
    """The text of a scalar in a text position; None for anything else.

    In YAML a bare number in a text position is its source text: `012` stays `012`.
    """
    if not isinstance(node, Scalar):
        return None
    if node.form is Form.TEXT or (node.bare and node.form in NUMBER_FORMS):
        return node.text
    return None


def number_text(node: Node) -> str | None:
    """The source text of a number, quoted or not; None for anything else."""
    if isinstance(node, Scalar) and node.form in NUMBER_FORMS | {Form.TEXT}:
        return node.text
    return None


class Single:
    """A value without parts, so its canonical form is one text, number or flag."""

    __slots__ = ()

    def write(self, value: object, *, minimal: bool) -> JsonValue:  # noqa: ARG002  has no fields to leave out
        return self.plain(value)

    def plain(self, value: object) -> JsonValue:
        return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A form that a whole text must have, in words for people."""

    regex: str
    words: str
    code: SpecCode = SpecCode.BAD_NAME
    fix: str = ""
    """In place of the remedy of the code."""


NAME = Pattern(
    regex=r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    words="1 to 63 small letters, digits and hyphens, a letter or digit at both ends",
)
PARAMETER_NAME = Pattern(
    regex=r"[a-z_][a-z0-9_]{0,62}",
    words="1 to 63 small letters, digits and underscores, no digit first",
    fix="use small letters, digits and underscores, no digit first",
)
_ALLOWED_BREAKS = frozenset("\n\t")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs"})
_UNASSIGNED = frozenset({"Co", "Cn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Single):
    """A bounded text without invisible characters; `lines` allows line breaks and tabs."""

    least: int = 1
    most: int = 200
    pattern: Pattern | None = None
    lines: bool = False
    normal: bool = True
    """Must be NFC of assigned characters; names from other systems are kept as written instead."""

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        text = text_of(node)
        if text is None:
            return wrong_type(node, at, reading, "a text")
        if broken := self.broken(text):
            code, message = broken
            fix = self.pattern.fix if self.pattern else ""
            return reading.fault(Fault(code=code, path=at, message=message, fix=fix))
        return text

    def broken(self, text: str) -> tuple[SpecCode, str] | None:
        """The rule that the text breaks, without the text."""
        if not self.least <= len(text) <= self.most:
            code = self.pattern.code if self.pattern else SpecCode.BAD_TEXT
            return code, f"{len(text)} characters; {self.least} to {self.most} are allowed"
        if self.pattern:
            whole = re.fullmatch(self.pattern.regex, text, re.ASCII)
            return None if whole else (self.pattern.code, self.pattern.words)
        allowed = _ALLOWED_BREAKS if self.lines else frozenset[str]()
        refused = _INVISIBLE | _UNASSIGNED if self.normal else _INVISIBLE
        if any(unicodedata.category(one) in refused and one not in allowed for one in text):
            return SpecCode.BAD_TEXT, "a control, invisible or unassigned character"
        if self.normal and not unicodedata.is_normalized("NFC", text):
            return SpecCode.BAD_TEXT, "the text is not in Unicode normal form C"
        return None

    def schema(self) -> JsonSchema:
        pattern = {"pattern": f"^{self.pattern.regex}$"} if self.pattern else {}
        return {"type": "string", "minLength": self.least, "maxLength": self.most, **pattern}


NAME_TEXT = Text(most=63, pattern=NAME)
IDENT = Text(most=128, normal=False)
SQL = Text(most=MAX_SQL_CHARACTERS, lines=True, normal=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Single):
    """One of a closed set of words, as a member of its enum or as plain text."""

    words: type[StrEnum] | tuple[str, ...]
    only: Collection[str] | None = None
    """The allowed words, when not all of the enum are allowed."""
    code: SpecCode = SpecCode.NOT_IN_ENUM
    absent: str = ""
    """Prefix of the message for a word of the enum that is not allowed."""

    @property
    def allowed(self) -> tuple[str, ...]:
        every = [str(word) for word in self.words]
        return tuple(word for word in every if self.only is None or word in self.only)

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        # `empty: null` is a word here although YAML reads it as null
        text = node.text if isinstance(node, Scalar) and node.bare else text_of(node)
        if text is None:
            return wrong_type(node, at, reading, "one word")
        if text not in self.allowed:
            known = self.absent and text in {str(word) for word in self.words}
            lead = f"{self.absent}; " if known else ""
            return reading.fault(
                Fault(
                    code=self.code,
                    path=at,
                    message=f"{lead}not one of {', '.join(self.allowed)}",
                    hint=did_you_mean(text, self.allowed),
                )
            )
        return text if isinstance(self.words, tuple) else self.words(text)

    def schema(self) -> JsonSchema:
        return {"type": "string", "enum": list(self.allowed)}


@dataclass(frozen=True, slots=True)
class Flag(Single):
    """true or false, unquoted."""

    def read(self, node: Node, at: Path, reading: Reading) -> bool | Gap:
        if isinstance(node, Scalar) and node.form is Form.BOOL:
            return node.text.lower() == "true"
        return wrong_type(node, at, reading, "true or false")

    def plain(self, value: object) -> JsonValue:
        return bool(value)

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


FLAG = Flag()
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_JSON_INTEGERS = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Single):
    """An integer in [least, most], both included. Above 2^53 it is written as text."""

    least: int
    most: int
    word: str | None = None
    """A word that may replace the number, such as `auto`."""

    def read(self, node: Node, at: Path, reading: Reading) -> int | str | Gap:
        if self.word is not None and text_of(node) == self.word:
            return self.word
        wide = self.most >= _JSON_INTEGERS
        forms = NUMBER_FORMS | {Form.TEXT} if wide else NUMBER_FORMS
        if not isinstance(node, Scalar) or node.form not in forms:
            return wrong_type(node, at, reading, self._wanted)
        if not _DIGITS.fullmatch(node.text):
            return wrong_type(node, at, reading, f"{self._wanted} in plain digits")
        value = int(node.text)
        if not self.least <= value <= self.most:
            message = f"{self.least} to {self.most} are allowed"
            hint = (
                f"write {self.least} or more"
                if value < self.least
                else f"write {self.most} or less"
            )
            return reading.fault(
                Fault(code=SpecCode.NOT_IN_ENUM, path=at, message=message, hint=hint)
            )
        return value

    @property
    def _wanted(self) -> str:
        return "a whole number" if self.word is None else f"`{self.word}` or a whole number"

    def plain(self, value: object) -> JsonValue:
        if isinstance(value, int):
            return value if abs(value) < _JSON_INTEGERS else str(value)
        return str(value)

    def schema(self) -> JsonSchema:
        number: JsonSchema = {"type": "integer", "minimum": self.least, "maximum": self.most}
        if self.most >= _JSON_INTEGERS:
            return {"anyOf": [number, {"type": "string", "pattern": _up_to(self.most)}]}
        return number if self.word is None else {"anyOf": [{"const": self.word}, number]}


def _up_to(most: int) -> str:
    """A pattern of the texts of 0 to `most`, with as many digits at most."""
    digits = str(most)
    smaller = [
        f"{digits[:at]}[0-{int(digit) - 1}][0-9]{{{len(digits) - at - 1}}}"
        for at, digit in enumerate(digits)
        if digit != "0"
    ]
    return f"^(?:{'|'.join((f'[0-9]{{1,{len(digits) - 1}}}', *smaller, digits))})$"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactDecimal(Single):
    """A decimal of zero or more, read from its source text, quoted or not."""

    most: Decimal | None = None
    signed: bool = False

    def _no_decimal(self, text: str, at: Path) -> Fault:
        message = "not a decimal of at most 38 digits, 18 after the point"
        hint = "write digits with a point, such as 0.01"
        if not self.signed and parse_decimal(text, signed=True) is not None:
            message = "negative, and only zero or more is allowed"
            hint = "leave the sign out: a tolerance allows differences up and down alike"
        return Fault(code=SpecCode.BAD_TOLERANCE_VALUE, path=at, message=message, hint=hint)

    def read(self, node: Node, at: Path, reading: Reading) -> Decimal | Gap:
        text = number_text(node)
        if text is None:
            return wrong_type(node, at, reading, "a decimal")
        value = parse_decimal(text, signed=self.signed)
        if value is None:
            return reading.fault(self._no_decimal(text, at))
        if self.most is not None and value > self.most:
            message = f"above {self.most}"
            return reading.fault(
                Fault(code=SpecCode.PERCENTAGE_ABOVE_100, path=at, message=message)
            )
        return value

    def plain(self, value: object) -> JsonValue:
        return format(value, "f") if isinstance(value, Decimal) else str(value)

    def schema(self) -> JsonSchema:
        sign = "-?" if self.signed else ""
        number: dict[str, JsonValue] = {"type": "number"}
        if not self.signed:
            number["minimum"] = 0
        if self.most is not None:
            number["maximum"] = int(self.most)
        text: JsonSchema = {
            "type": "string",
            "pattern": rf"^{sign}[0-9]{{1,38}}(\.[0-9]{{1,18}})?$",
        }
        return {"anyOf": [number, text], "description": "exact decimal, quoted or not"}


PERCENT = ExactDecimal(most=Decimal(100))
AMOUNT = ExactDecimal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Length(Single):
    """An ISO 8601 duration in [least, most], both included."""

    least: timedelta = timedelta()
    most: timedelta = timedelta(days=366)

    def read(self, node: Node, at: Path, reading: Reading) -> timedelta | Gap:
        text = text_of(node)
        if text is None:
            return wrong_type(node, at, reading, "a duration such as PT15M")
        value = parse_duration(text)
        if value is None:
            message = "not an ISO 8601 duration of weeks, days, hours, minutes or seconds"
            hint = "write for instance PT30S, PT15M, PT1H, P1D"
        elif self.least <= value <= self.most:
            return value
        else:
            message = f"{duration_text(self.least)} to {duration_text(self.most)} are allowed"
            hint = f"write for instance {duration_text(max(self.least, min(value, self.most)))}"
        return reading.fault(Fault(code=SpecCode.BAD_DURATION, path=at, message=message, hint=hint))

    def plain(self, value: object) -> JsonValue:
        return duration_text(value) if isinstance(value, timedelta) else str(value)

    def schema(self) -> JsonSchema:
        least, most = duration_text(self.least), duration_text(self.most)
        return {
            "type": "string",
            "pattern": r"^P(\d+W)?(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d{1,6})?S)?)?$",
            "description": f"ISO 8601 duration, {least} to {most}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Single):
    """Bytes as an integer with KiB, MiB, GiB or TiB, in [least, most]."""

    least: int
    most: int

    def read(self, node: Node, at: Path, reading: Reading) -> int | Gap:
        text = text_of(node)
        value = parse_size(text) if text is not None else None
        if value is None:
            return wrong_type(node, at, reading, "a size such as 2GiB or 512MiB")
        if not self.least <= value <= self.most:
            message = f"{size_text(self.least)} to {size_text(self.most)} are allowed"
            hint = f"write {size_text(self.least if value < self.least else self.most)}"
            return reading.fault(
                Fault(code=SpecCode.NOT_IN_ENUM, path=at, message=message, hint=hint)
            )
        return value

    def plain(self, value: object) -> JsonValue:
        return size_text(value) if isinstance(value, int) else str(value)

    def schema(self) -> JsonSchema:
        return {
            "type": "string",
            "pattern": r"^[0-9]{1,9}(KiB|MiB|GiB|TiB)$",
            "description": f"size, {size_text(self.least)} to {size_text(self.most)}",
        }


@dataclass(frozen=True, slots=True)
class TypeName(Single):
    """A canonical type such as `decimal(20,4)`."""

    def read(self, node: Node, at: Path, reading: Reading) -> CanonicalType | Gap:
        text = text_of(node)
        if text is None:
            return wrong_type(node, at, reading, "a canonical type")
        try:
            return parse_type(text[:MAX_TYPE_CHARACTERS])
        except ValueError:
            return reading.fault(
                Fault(
                    code=SpecCode.NOT_IN_ENUM,
                    path=at,
                    message="no canonical type",
                    hint="write for instance int, decimal(20,4), text, date, instant, array<text>",
                )
            )

    def schema(self) -> JsonSchema:
        return {"type": "string", "examples": ["int", "decimal(20,4)", "text", "instant"]}


@dataclass(frozen=True, slots=True)
class Zone(Single):
    """A name of the IANA list of time zones."""

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        text = text_of(node)
        if text is None:
            return wrong_type(node, at, reading, "a time zone")
        if problem := zone_fault(text):
            hint = did_you_mean(text, zone_names()) or "write a name such as Europe/Paris or UTC"
            return reading.fault(
                Fault(code=SpecCode.UNKNOWN_ZONE, path=at, message=problem, hint=hint)
            )
        return text

    def schema(self) -> JsonSchema:
        return {"type": "string", "maxLength": 95, "examples": ["UTC", "Europe/Paris"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Single):
    """A text with its own rule, such as a URL, a path, a mail address."""

    text: Text
    code: SpecCode
    fault_of: Callable[[str, Reading], str | None] = field(repr=False)
    """The fault of the text, without repeating it, or None."""
    examples: Sequence[str] = ()
    fix: str = ""
    """In place of the remedy of the code."""

    def read(self, node: Node, at: Path, reading: Reading) -> str | Gap:
        text = self.text.read(node, at, reading)
        if isinstance(text, Gap):
            return text
        if problem := self.fault_of(text, reading):
            return reading.fault(Fault(code=self.code, path=at, message=problem, fix=self.fix))
        return text

    def schema(self) -> JsonSchema:
        return {**self.text.schema(), "examples": list(self.examples)}
