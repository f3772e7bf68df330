"""Detect a full disk where DuckDB spills; no source and no query causes it.

A separate module because both queries over files and deletes of Iceberg tables spill.
"""

from errno import ENOSPC
from os import strerror

import duckdb

_LIMIT = "max_temp_directory_size"
"""DuckDB reports it if its spill would exceed a limit, which is the free disk if none is set."""
_SIGNS = ("No space left on device", _LIMIT)


def exceeds_limit(failure: duckdb.Error) -> bool:
    """Whether a spill would exceed the limit of its database."""
    return _LIMIT in str(failure)


def check_disk(failure: duckdb.Error) -> None:
    """Call before a DuckDB error is translated to another error.

    Raises:
        OSError: the disk is full.
    """
    if any(sign in str(failure) for sign in _SIGNS):
        raise OSError(ENOSPC, strerror(ENOSPC)) from failure
