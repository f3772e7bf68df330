"""A run.json from a store, read part by part with types.

A reader trusts nothing: an absent part or one of another type raises one error with its place, so
that nothing is judged, verified or shown from half a document. Separate from `sealed`, which
defines the parts of the proof.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TypeVar

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.storage import StorageCode

T = TypeVar("T")
E = TypeVar("E", bound=Enum)
_DECIMAL = re.compile(r"-?\d{1,800}(\.\d{1,800})?", re.ASCII)


class DocumentUnreadableError(DatarecsError):
    """A run.json that is not of this release, with the place of the fault."""

    code = StorageCode.BLOB_CORRUPT

    def __init__(self, *, place: str, wanted: str) -> None:
        super().__init__(f"run.json: {place or 'the document'} is not {wanted}")
        self.place, self.wanted = place, wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One object of the document; optional parts may be absent."""

    place: str
    content: Mapping[str, object]

    def text(self, name: str) -> str:
        return self._of(name, str, "text")

    def maybe(self, name: str) -> str | None:
        """Text, or None where it is null or absent."""
        return None if self.content.get(name) is None else self.text(name)

    def word(self, name: str, words: type[E]) -> E:
        """A member of an enum by its value."""
        try:
            return words(self.text(name))
        except ValueError:
            known = ", ".join(str(each.value) for each in words)
            raise self.wrong(name, f"one of {known}") from None

    def count(self, name: str) -> int:
        """A number of 0 or more; from 2^53 it is text, and 0 may be left out."""
        value = self.content.get(name)
        if value is None:
            return 0
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self.wrong(name, "a count")

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false")

    def decimal(self, name: str) -> Decimal | None:
        written = self.maybe(name)
        if written is None:
            return None
        if not _DECIMAL.fullmatch(written):
            raise self.wrong(name, "a decimal number")
        return Decimal(written)

    def part(self, name: str) -> "Part":
        """An object that must be there."""
        return _part(self.content.get(name), self.at(name))

    def maybe_part(self, name: str) -> "Part":
        """An object; an absent one reads as an empty one."""
        value = self.content.get(name)
        return _part({} if value is None else value, self.at(name))

    def parts(self, name: str) -> tuple["Part", ...]:
        """A list of objects that must be there."""
        return tuple(
            _part(value, f"{self.at(name)}[{at}]") for at, value in enumerate(self.items(name))
        )

    def maybe_parts(self, name: str) -> tuple["Part", ...]:
        return () if self.content.get(name) is None else self.parts(name)

    def items(self, name: str) -> Sequence[object]:
        value = self.content.get(name)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self.wrong(name, "a list")
        return value

    def texts(self, name: str) -> tuple[str | None, ...]:
        """A list of texts and nulls; an absent one is empty."""
        listed = () if self.content.get(name) is None else self.items(name)
        return tuple(self._text_or_none(value, name) for value in listed)

    def pairs(self, name: str) -> dict[str, str | None]:
        """A list of pairs, such as source and value, in its order; an absent one is empty."""
        pairs: dict[str, str | None] = {}
        for pair in () if self.content.get(name) is None else self.items(name):
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:  # noqa: PLR2004  a pair
                raise self.wrong(name, "a list of pairs")
            pairs[str(pair[0])] = self._text_or_none(pair[1], name)
        return pairs

    def mapping(self, name: str) -> dict[str, str]:
        """An object with values as text; an absent one is empty."""
        return {key: _shown(value) for key, value in self.maybe_part(name).content.items()}

    def by_source(self, name: str, sources: int) -> tuple[int, ...]:
        """Numbers under `source_0`, `source_1`, …, in this order."""
        part = self.part(name)
        if len(part.content) != sources:
            raise self.wrong(name, f"a number for each of {sources} sources")
        return tuple(part.count(f"source_{index}") for index in range(sources))

    def decimals(self, name: str, sources: int) -> tuple[Decimal | None, ...]:
        part = self.part(name)
        return tuple(part.decimal(f"source_{index}") for index in range(sources))

    def at(self, name: str) -> str:
        return f"{self.place}.{name}".lstrip(".")

    def wrong(self, name: str, wanted: str) -> DocumentUnreadableError:
        return DocumentUnreadableError(place=self.at(name), wanted=wanted)

    def _text_or_none(self, value: object, name: str) -> str | None:
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(name, "text")

    def _of(self, name: str, kind: type[T], wanted: str) -> T:
        value = self.content.get(name)
        if not isinstance(value, kind):
            raise self.wrong(name, wanted)
        return value


def whole(document: object) -> Part:
    """The document itself.

    Raises:
        DocumentUnreadableError: it is no object.
    """
    return _part(document, "")


def _part(value: object, place: str) -> Part:
    if not isinstance(value, Mapping):
        raise DocumentUnreadableError(place=place, wanted="an object")
    return Part(place=place, content=value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_shown, value))
    return str(value)
