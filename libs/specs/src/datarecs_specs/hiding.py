"""Lines of a declaration without the secrets that somebody wrote into it.

Separate from the findings because it judges text alone: a file that is no YAML at all may hold a
password too, and no path leads to it.
"""

import re
from collections.abc import Iterable

HIDDEN = "<hidden>"
_SECRET_NAME = re.compile(
    r"""(?ix) (?<![\w-]) (?P<quote>["']?)
    ([\w-]*(password|passwd|pwd|secret|token|credentials?|api[_-]?key|private[_-]?key|account_key)
     |access_key_id|sas|dsn|authorization) (?P=quote) \s* : (?=\s|$|["'])"""
)
_KEY = re.compile(r"""("[\w-]+"|'[\w-]+'|[\w-]+)\s*:(?=\s|$)""")
_QUOTED = re.compile(r""""(?P<double>[^"]*)"?|'(?P<single>[^']*)'?""")
_PLAIN = re.compile(r"[^\s,{}\[\]]+")
_BETWEEN = re.compile(r"[\s,{}\[\]]+")
_HARMLESS = re.compile(r"(env|file):\S*|[|>][+-]?|")


def without_secrets(text: str, places: Iterable[tuple[int, int]]) -> list[str]:
    """The lines, each cut where its first secret begins.

    Args:
        text: the whole declaration, also a broken one.
        places: line and column, from 1, of values that are secrets, or of their keys.
    """
    lines = text.splitlines()
    cuts = {number: _named(line) for number, line in enumerate(lines, start=1)}
    for line, column in places:
        if line in cuts:
            cuts[line] = min(cuts[line], _first_secret(lines[line - 1], column - 1))
    return [_cut(line, cuts[number]) for number, line in enumerate(lines, start=1)]


def _named(line: str) -> int:
    """Where the first value begins whose key says that it is a secret; else the line's length."""
    starts = (_first_secret(line, match.end()) for match in _SECRET_NAME.finditer(line))
    return min(starts, default=len(line))


def _first_secret(line: str, start: int) -> int:
    """Where the first value begins that is no reference; else the line's length."""
    at = start
    while at < len(line):
        if skipped := _BETWEEN.match(line, at) or _KEY.match(line, at):
            at = skipped.end()
            continue
        if line[at] == "#" and (at == 0 or line[at - 1].isspace()):
            return len(line)
        quoted = _QUOTED.match(line, at)
        value = quoted or _PLAIN.match(line, at)
        if value is None:
            return at
        text = (quoted["double"] or quoted["single"] or "") if quoted else value[0]
        if not _HARMLESS.fullmatch(text):
            return at + 1 if quoted else at
        at = value.end()
    return len(line)


def _cut(line: str, at: int) -> str:
    if at >= len(line):
        return line
    start = line[:at]
    return start + HIDDEN if not start or start[-1] in " \"'{[" else f"{start} {HIDDEN}"
