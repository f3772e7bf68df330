"""Globs over event types: their form and what they match.

The language: `*` is one dot segment, `**` one or more, nothing else is special.
"""

import re
from collections.abc import Iterable, Sequence

from datarecs_core.errors.faults import nearest

_FAMILY = ["io", "datarecs"]
"""The first two segments of every event type, which a glob may omit."""
FAMILY_PREFIX = ".".join((*_FAMILY, ""))
GLOB = re.compile(r"(\*{1,2}|[a-z0-9_]+)(\.(\*{1,2}|[a-z0-9_]+))*")
"""The form of a glob, as schemas publish it."""


def glob_fault(glob: str) -> str | None:
    """What is wrong with the glob, or None."""
    if GLOB.fullmatch(glob):
        return None
    return "segments of a-z, 0-9 and _ joined by dots; * is one segment, ** one or more"


def glob_matches(glob: str, event_type: str) -> bool:
    """Whether the whole type matches; both may leave out `io.datarecs.`; case counts."""
    return _matches(short_type(glob).split("."), short_type(event_type).split("."))


def nearest_glob(glob: str, types: Iterable[str]) -> str | None:
    """A glob that matches a type and is close to this one, which matches none.

    Without its first segment, with a misspelt type, or with misspelt segments; else None.
    """
    known = sorted(map(short_type, types))
    families = sorted({one.partition(".")[0] for one in known})
    words = {segment for one in known for segment in one.split(".")}
    segments = short_type(glob).split(".")
    near = [one if one in words or "*" in one else nearest(one, words) or one for one in segments]
    guesses = (
        *(f"{family}.{glob}" for family in families),
        nearest(short_type(glob), known),
        ".".join(near),
    )
    matching = (one for one in guesses if one and any(glob_matches(one, name) for name in known))
    return next(matching, None)


def short_type(text: str) -> str:
    """The type or glob without its leading family segments, if it has them."""
    segments = text.split(".")
    return ".".join(segments[2:]) if segments[:2] == _FAMILY else text


def _matches(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    """Linear in pattern times segments; `reached[j]`: the pattern so far matches j segments.

    No backtracking, so fifty malicious globs cost no more than fifty usual ones.
    """
    reached = [True, *([False] * len(segments))]
    for part in pattern:
        following = [False] * len(reached)
        for eaten in range(1, len(reached)):
            here = segments[eaten - 1]
            if part == "**":
                following[eaten] = reached[eaten - 1] or following[eaten - 1]
            else:
                following[eaten] = reached[eaten - 1] and part in {"*", here}
        reached = following
    return reached[-1]
