"""Statements of SQLAlchemy for the driver: compiled once, filled with the values of each call.

A separate module because it replaces the part of SQLAlchemy's execution that costs more than the
statement: on the paths of every run the text of a statement never changes, only its values. In the
source they remain statements of SQLAlchemy Core, with its tables and types.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Executable
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

_DIALECT = psycopg.dialect()  # type: ignore[no-untyped-call]  # the library's


@dataclass(frozen=True, slots=True)
class Compiled:
    """Text for the driver, and the conversion of its values."""

    text: bytes
    _constants: Mapping[str, object]
    """Values that the statement contains."""
    _processors: Mapping[str, Callable[[Any], object]]
    """Conversions of values with types that the driver does not support, such as JSON."""

    def values(self, parameters: Mapping[str, object]) -> Mapping[str, object]:
        filled = {**self._constants, **parameters}
        for name, process in self._processors.items():
            filled[name] = process(filled[name])
        return filled


def compiled(statement: Executable, parameters: Mapping[str, object]) -> Compiled:
    """The cached text of a statement with these parameters; it must be a module constant.

    A statement that is created for each call would add a cache entry for each call.
    """
    return _compiled(statement, tuple(parameters))


@cache
def _compiled(statement: Executable, names: tuple[str, ...]) -> Compiled:
    made = None
    if isinstance(statement, ClauseElement):
        made = statement.compile(dialect=_DIALECT, column_keys=list(names))
    if not isinstance(made, SQLCompiler):
        raise TypeError(f"a {type(statement).__name__} neither reads nor writes")
    constants = {name: value for name, value in made.params.items() if name not in names}
    processors = {
        name: process
        for name, bind in made.binds.items()
        if (process := bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT)) is not None
    }
    return Compiled(str(made).encode(), constants, processors)
