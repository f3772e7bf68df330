"""A fault of a declaration as a value: which rule, where in the document, what to write instead.

Separate from the exceptions because all faults of a document are reported at once, and because the
rules use paths while only the reader of the text has lines and columns.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from datarecs_core.errors.spec import SpecCode

T = TypeVar("T")
Step = str | int
Path = tuple[Step, ...]
"""From the document's root: keys of mappings and indices of lists, in canonical field names."""

_NEAR = 2
"""Edits up to which a known word is suggested."""
_SHOWN = 64
"""Characters of a foreign key that a message repeats."""


class Place(StrEnum):
    """The part at the path that is marked."""

    VALUE = "value"
    KEY = "key"
    """The key itself: it is unknown, repeated, or in the wrong place."""
    MISSING = "missing"
    """It is absent, so the mapping without it is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Replaces a part with a fault in a decoded list or field, so that the rest can be checked."""

    name: str | None = None
    """Of the broken part, if it could be read: other parts may refer to it."""


def is_gap(item: object) -> bool:
    """Whether a broken part was here. Drafts hold Gaps where their types declare parts."""
    return isinstance(item, Gap)


def usable(items: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Index and item of all parts that are not a Gap."""
    return ((index, item) for index, item in enumerate(items) if not is_gap(item))


def name_of(item: object) -> str | None:
    """The name of a part, also of a broken one that had a readable name."""
    name = getattr(item, "name", None)
    return name if isinstance(name, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One broken rule. Messages repeat no value of the document, only keys and fixed words."""

    code: SpecCode
    path: Path
    message: str
    hint: str = ""
    """What to do, such as "did you mean 'tolerances'?"."""
    fix: str = ""
    """In place of the remedy of the code, where that is about other fields."""
    place: Place = Place.VALUE
    others: tuple[Path, ...] = ()
    """Paths that cause the fault together with `path`; the later one in the text is marked."""
    warning: bool = False
    """A warning: the document is still accepted."""
    note: bool = False
    """A warning about another place, where the same message is a refusal: nothing is wrong here."""

    @property
    def shown_path(self) -> Path:
        """The path printed in front of the message: for absent and misplaced keys their mapping."""
        return self.path if self.place is Place.VALUE else self.path[:-1]


def pointer(path: Path) -> str:
    """RFC 6901, such as `/spec/stages/0`; empty for the document itself."""
    return "".join(f"/{visible(str(step)).replace('~', '~0').replace('/', '~1')}" for step in path)


def dotted(path: Path) -> str:
    """For people, such as `spec.stages[0].measures[2]`; foreign keys are quoted where needed."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and step.isascii():
            text += f".{visible(step)}"
        else:
            text += f'["{visible(step)}"]'
    return text.removeprefix(".")


def visible(key: str) -> str:
    """The key as it may be shown: control and invisible characters escaped, cut to 64."""
    cut = key if len(key) <= _SHOWN else f"{key[: _SHOWN - 1]}…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word within edit distance 2, case aside; the closest first, then the alphabet."""
    if len(word) > _SHOWN:
        return None
    near = ((distance(word.casefold(), other.casefold()), other) for other in known)
    close = [
        (far, other) for far, other in near if far <= min(_NEAR, max(len(word), len(other)) - 1)
    ]
    return min(close)[1] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint for a misspelt word, empty when no word is close."""
    guess = nearest(word, known)
    return f"did you mean {str(guess)!r}?" if guess else ""


def distance(one: str, other: str) -> int:
    """Letters to insert, drop or replace to turn one word into the other; 3 means more."""
    if abs(len(one) - len(other)) > _NEAR:
        return _NEAR + 1
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, start=1):
        before, row[0] = row[0], index
        for column, opposite in enumerate(other, start=1):
            change = before + (letter != opposite)
            before, row[column] = row[column], min(change, row[column] + 1, row[column - 1] + 1)
    return min(row[-1], _NEAR + 1)
