"""Statements of SQLAlchemy as the driver takes them: compiled once, filled with each call's values.

Its own module because it replaces the half of SQLAlchemy's execution that costs more than the
statement itself: on the paths that every run takes, what is said never changes, only its values.
Written down they stay statements of SQLAlchemy Core, with its tables and its types.
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
    """Text for the driver, and how its values are made."""

    text: bytes
    _constants: Mapping[str, object]
    """Values that stand in the statement itself."""
    _processors: Mapping[str, Callable[[Any], object]]
    """How values of types that the driver does not know are made, such as JSON."""

    def values(self, parameters: Mapping[str, object]) -> Mapping[str, object]:
        filled = {**self._constants, **parameters}
        for name, process in self._processors.items():
            filled[name] = process(filled[name])
        return filled


def compiled(statement: Executable, parameters: Mapping[str, object]) -> Compiled:
    """The text of a statement with these parameters, for ever: it must stand in a module.

    A statement that is made anew for each call would be kept anew for each call.
    """
    return _compiled(statement, tuple(parameters))


@cache
def _compiled(statement: Executable, names: tuple[str, ...]) -> Compiled:
    made = None
    if isinstance(statement, ClauseElement):
        made = statement.compile(dialect=_DIALECT, column_keys=list(names))
    if not isinstance(made, SQLCompiler):
        raise TypeError(f"a {type(statement).__name__} neither asks nor writes")
    constants = {name: value for name, value in made.params.items() if name not in names}
    processors = {
        name: process
        for name, bind in made.binds.items()
        if (process := bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT)) is not None
    }
    return Compiled(str(made).encode(), constants, processors)
