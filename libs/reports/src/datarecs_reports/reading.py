"""run.json as it lies in the store, read part by part with types.

Apart from the model so that every wrong or missing field ends in one error that names its place,
and no page is rendered from half a document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.storage import StorageCode

T = TypeVar("T")


class DocumentUnreadableError(DatarecsError):
    """A run.json that is not one, or whose fields are not of their types."""

    code = StorageCode.BLOB_CORRUPT

    def __init__(self, *, place: str, wanted: str) -> None:
        super().__init__(f"run.json: {place or 'the document'} is not {wanted}")
        self.place, self.wanted = place, wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One object of the document; an absent object reads as an empty one."""

    place: str
    content: Mapping[str, object]

    def text(self, name: str) -> str:
        return self._of(name, str, "text")

    def maybe(self, name: str) -> str | None:
        """Text, or None where it is null or absent."""
        return None if self.content.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """An integer; one of 2^53 or more stands as text."""
        value = self.content.get(name)
        if isinstance(value, str) and value.lstrip("-").isdecimal():
            return int(value)
        return self._of(name, int, "a whole number")

    def count(self, name: str) -> int:
        """A number that is left out when it is 0."""
        return 0 if self.content.get(name) is None else self.number(name)

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false")

    def part(self, name: str) -> "Part":
        value = self.content.get(name)
        return _part({} if value is None else value, f"{self.place}.{name}")

    def parts(self, name: str) -> tuple["Part", ...]:
        return tuple(
            _part(value, f"{self.place}.{name}[{at}]") for at, value in enumerate(self._items(name))
        )

    def texts(self, name: str) -> tuple[str | None, ...]:
        return tuple(self._text_or_none(value, name) for value in self._items(name))

    def by_source(self, name: str, sources: int) -> tuple[int, ...]:
        """Numbers under `source_0`, `source_1`, …, in this order."""
        numbers = self.part(name)
        return tuple(numbers.count(f"source_{index}") for index in range(sources))

    def texts_by_source(self, name: str, sources: int) -> tuple[str | None, ...]:
        texts = self.part(name)
        return tuple(texts.maybe(f"source_{index}") for index in range(sources))

    def pairs(self, name: str) -> dict[str, str | None]:
        """A list of pairs, such as source and value, in its order."""
        found: dict[str, str | None] = {}
        for pair in self._items(name):
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:  # noqa: PLR2004  a pair
                raise self._wrong(name, "a list of pairs")
            found[str(pair[0])] = self._text_or_none(pair[1], name)
        return found

    def mapping(self, name: str) -> dict[str, str]:
        """An object whose values are shown as text."""
        return {key: _shown(value) for key, value in self.part(name).content.items()}

    def _items(self, name: str) -> Sequence[object]:
        value = self.content.get(name)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise self._wrong(name, "a list")
        return value

    def _text_or_none(self, value: object, name: str) -> str | None:
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(name, "text")

    def _of(self, name: str, kind: type[T], wanted: str) -> T:
        value = self.content.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong(name, wanted)
        return value

    def _wrong(self, name: str, wanted: str) -> DocumentUnreadableError:
        return DocumentUnreadableError(place=f"{self.place}.{name}".lstrip("."), wanted=wanted)


def _part(value: object, place: str) -> Part:
    if not isinstance(value, Mapping):
        raise DocumentUnreadableError(place=place.lstrip("."), wanted="an object")
    return Part(place=place, content=value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_shown, value))
    return str(value)


def whole(document: Mapping[str, object]) -> Part:
    return Part(place="", content=document)
