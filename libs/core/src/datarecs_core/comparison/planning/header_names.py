"""Which names of a CSV header may be in a message.

A separate module because a file without a header has a row in its first line, and messages hold
no values: planner and connectors use one rule to leave out names that look like values.
"""

import re
from collections.abc import Sequence

_NAME = re.compile(r"[^\W\d][\w .,:/#%()-]{0,62}")


def names_for_messages(names: Sequence[str]) -> list[str]:
    """Those that begin with a letter and are at most 63 letters, digits and usual marks.

    None where one of them has other letters: then the line is a row, and its words are values as
    well.
    """
    return list(names) if all(map(_NAME.fullmatch, names)) else []
