"""The table: a new type, or a new way in which files spell an old one, is one more case."""

from datarecs_testing.odd_types.case import OddCase
from datarecs_testing.odd_types.floats import floats


def cases() -> tuple[OddCase, ...]:
    """All of them; names are unique."""
    return (*floats(),)
