"""A disk that is full where DuckDB spills, for which no source and no query is to blame.

A module of its own because queries over files and a lake's deletes spill alike.
"""

from errno import ENOSPC
from os import strerror

import duckdb

_SIGNS = ("No space left on device", "max_temp_directory_size")
"""The second is what DuckDB says of a disk that its spill would fill; it looks before it writes."""


def check_disk(failure: duckdb.Error) -> None:
    """To be called before a failure is told in other words.

    Raises:
        OSError: the disk is full.
    """
    if any(sign in str(failure) for sign in _SIGNS):
        raise OSError(ENOSPC, strerror(ENOSPC)) from failure
