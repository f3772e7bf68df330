"""The tree of a query on files, as DuckDB parses it: what it reads and which columns it names.

DuckDB has more relations than a job's tables: settings, catalogs and functions that reveal the
process and its machine. A query may use the source's tables, its WITH parts, and functions that
make rows of arguments; everything else is refused before it runs.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import duckdb

Node = Mapping[str, object]
_WHOLE_ROWS = frozenset({"STAR", "NATURAL", "TABLE_FUNCTION", "SHOW_REF"})
"""Nodes of a query that may name columns without writing their names."""
_ROW_MAKERS = frozenset({"unnest", "range", "generate_series"})
"""Table functions that read nothing."""
_ENGINE_NAMES = ("duckdb_", "pragma_", "sqlite_", "pg_", "information_schema")
"""Prefixes of the engine's relations; a WITH part may not have such a name."""
_PROCESS_READERS = frozenset({"current_setting", "getenv", "getvariable", "write_log"})
"""Functions that reveal the process, or write to its log."""


def tree_of(text: str, database: duckdb.DuckDBPyConnection) -> Node | None:
    """The parsed query; None where DuckDB cannot show it, as for SHOW or the statement PIVOT."""
    # All rows are fetched, because an open result would block the query itself.
    ((written,),) = database.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    tree: Node = json.loads(written)
    return None if tree.get("error", True) else tree


def first_other_relation(tree: Node, tables: Collection[str]) -> str | None:
    """A text for what a query reads in addition to its tables; None if it reads only these."""
    parts = set(_with_names(tree))
    for name in sorted(parts):
        if name.startswith(_ENGINE_NAMES):
            return f"a WITH part named {name}, which is also a name of the engine"
    allowed = {*(table.casefold() for table in tables), *parts}
    return next((other for node in _nodes(tree) if (other := _other(node, allowed))), None)


def _other(node: Node, allowed: set[str]) -> str:
    """What one node reads that is not allowed; empty if it is allowed."""
    match node.get("type"):
        case "SHOW_REF":
            return "the list of tables"
        case "TABLE_FUNCTION" if (name := _function_name(node)) not in _ROW_MAKERS:
            return f"the function {name}()"
        case "BASE_TABLE" if node.get("schema_name") or node.get("catalog_name"):
            return f"the table {node['schema_name']}.{node['table_name']}"
        case "BASE_TABLE" if str(node["table_name"]).casefold() not in allowed:
            return f"the table {node['table_name']}"
        case "FUNCTION" if str(node["function_name"]).casefold() in _PROCESS_READERS:
            return f"the function {node['function_name']}()"
    return ""


def _function_name(node: Node) -> str:
    function = node.get("function")
    return str(function["function_name"]).casefold() if isinstance(function, dict) else ""


def _with_names(tree: Node) -> Iterator[str]:
    for node in _nodes(tree):
        parts = node.get("cte_map")
        if isinstance(parts, dict):
            for part in parts["map"]:
                yield str(part["key"]).casefold()


def _nodes(value: object) -> Iterator[Node]:
    """Every object of the tree, in any order."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as node:
                yield node
                waiting.extend(node.values())
            case list() as items:
                waiting.extend(items)
            case _:
                pass


@dataclass(slots=True)
class Words:
    """Every text in the tree of a query, and whether it may use columns without their names."""

    all: set[str] = field(default_factory=set)
    relations: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, tree: object) -> "Words":
        words = cls()
        words._take(tree)
        return words

    @property
    def whole(self) -> bool:
        """Also true if a table's name means its rows."""
        return bool(self.relations & self.references) or any(
            each.casefold() in self.all for each in _WHOLE_ROWS
        )

    def _take(self, node: object) -> None:
        match node:
            case str():
                self.all.add(node.casefold())
            case list():
                for each in node:
                    self._take(each)
            case dict():
                self._take_names(node)
                for each in node.values():
                    self._take(each)

    def _take_names(self, node: Mapping[str, object]) -> None:
        if node.get("class") == "COLUMN_REF" and isinstance(names := node["column_names"], list):
            self.references.update(str(each).casefold() for each in names[-1:])
        if "sample" in node:
            aliases = (node.get("alias"), node.get("table_name"))
            self.relations.update(str(each).casefold() for each in aliases if each)
