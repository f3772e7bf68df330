"""Detect a full disk where DuckDB spills; no source and no query causes it.

A separate module because both queries over files and deletes of Iceberg tables spill.
"""

from errno import ENOSPC
from os import strerror

import duckdb

_SIGNS = ("No space left on device", "max_temp_directory_size")
"""DuckDB reports the second if its spill would fill the disk; it checks before it writes."""


def check_disk(failure: duckdb.Error) -> None:
    """Call before a DuckDB error is translated to another error.

    Raises:
        OSError: the disk is full.
    """
    if any(sign in str(failure) for sign in _SIGNS):
        raise OSError(ENOSPC, strerror(ENOSPC)) from failure
