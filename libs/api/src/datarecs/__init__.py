"""Compare tables in a Python program, a test or a notebook.

`compare` answers on this machine, as the command `datarecs compare` does; `Client` starts and
follows runs of a server. Everything public is here; other modules of the distribution may change
in every release.
"""

from datarecs.arrow_files import ArrowStream
from datarecs.comparing import Limit, compare
from datarecs.comparison import Comparison, Counts
from datarecs.errors import ArgumentError, Unmatched
from datarecs.server import Client, Run
from datarecs.sources import SparkFrame, TableSource, source
from datarecs_cli.local.database_address import DatabaseAddress
from datarecs_core.errors.base import DatarecsError

__all__ = [
    "ArgumentError",
    "ArrowStream",
    "Client",
    "Comparison",
    "Counts",
    "DatabaseAddress",
    "DatarecsError",
    "Limit",
    "Run",
    "SparkFrame",
    "TableSource",
    "Unmatched",
    "compare",
    "source",
]
