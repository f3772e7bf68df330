"""Which names of a CSV header may stand in a message.

A module of its own because a file without a header has a row in its first line, and messages hold
no values: planner and connectors leave out by one rule what looks like one.
"""

import re
from collections.abc import Sequence

_NAME = re.compile(r"[^\W\d][\w .:/#%()-]{0,62}")


def names_for_messages(names: Sequence[str]) -> list[str]:
    """Those that begin with a letter and are at most 63 letters, digits and usual marks.

    None where one of them has other letters: then the line is a row, whose words are values as
    well.
    """
    return list(names) if all(map(_NAME.fullmatch, names)) else []
