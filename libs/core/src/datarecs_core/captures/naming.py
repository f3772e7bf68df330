"""Names of namespaces and tables as one text: parts joined by dots, quoted where needed.

The one place, so that REST, declarations and the command line read the same text in the same way.
"""

import re
from collections.abc import Sequence

MAX_PARTS = 32
MAX_PART_CHARACTERS = 255
_PLAIN = re.compile(r'[^."\s]+')
_PART = re.compile(r'"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^."\s]+)')


def split_name(text: str) -> tuple[str, ...] | None:
    """The parts of `a.b`, or of `"a.b"."c"` with dots, blanks or quotes in a part.

    Returns:
        None for any other text: an empty part, a quote without an end, a blank without quotes.
    """
    parts: list[str] = []
    at = 0
    while True:
        matched = _PART.match(text, at)
        if matched is None:
            return None
        parts.append(matched["plain"] or matched["quoted"].replace('""', '"'))
        at = matched.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            return None
        at += 1


def joined_name(parts: Sequence[str]) -> str:
    """The text that `split_name` reads as these parts."""
    return ".".join(part if _PLAIN.fullmatch(part) else _quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'
