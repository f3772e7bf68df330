"""Hand-written SQL in `.sql` files, as named statements that are loaded on first use.

A file contains `-- name: what_it_is` lines, each followed by a comment of purpose and one
statement.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from sqlalchemy import TextClause, text

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statement(file: str, name: str) -> TextClause:
    """The statement of that name in `datarecs_postgres/<file>.sql`.

    Raises:
        KeyError: the file has no such statement.
    """
    return text(_statements(file)[name])


@cache
def _statements(file: str) -> Mapping[str, str]:
    script = files("datarecs_postgres").joinpath(f"{file}.sql").read_text("utf-8")
    parts = _NAME.split(script)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))
