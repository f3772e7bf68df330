"""The table: a new type, or a new way in which files spell an old one, is one more case."""

from datarecs_testing.odd_types.case import OddCase
from datarecs_testing.odd_types.files import files
from datarecs_testing.odd_types.floats import floats
from datarecs_testing.odd_types.nested import nested
from datarecs_testing.odd_types.storage import dictionaries, documents, old_times, uuids
from datarecs_testing.odd_types.valueless import valueless


def cases() -> tuple[OddCase, ...]:
    """All of them; names are unique."""
    return (
        *dictionaries(),
        *documents(),
        *uuids(),
        *nested(),
        *old_times(),
        *valueless(),
        *files(),
        *floats(),
    )
