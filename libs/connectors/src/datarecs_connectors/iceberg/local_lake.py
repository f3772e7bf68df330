"""A catalog in a folder of this machine, as another program than the sink would open it.

The demo makes the catalog, counts what the sink has written, and deletes a row behind its back.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLake:
    """A SQL catalog in SQLite, `catalog.db` of a folder."""

    folder: Path
    name: str
    """Of the catalog, as its rows carry it."""

    @property
    def file(self) -> Path:
        return self.folder / "catalog.db"

    def create(self) -> None:
        """An empty catalog; safe to repeat."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._opened():
            pass

    def count(self, table: str) -> int:
        """Rows of `namespace.table` now."""
        with self._opened() as catalog:
            return int(catalog.load_table(table).scan().count())

    def delete_row(self, table: str, place: Mapping[str, int]) -> None:
        """Delete the rows with these whole numbers in these columns, in a snapshot of its own."""
        with self._opened() as catalog:
            condition = " and ".join(f"{column} = {value}" for column, value in place.items())
            catalog.load_table(table).delete(condition)

    @contextmanager
    def _opened(self) -> Iterator[SqlCatalog]:
        with closing(SqlCatalog(self.name, uri=f"sqlite:///{self.file}")) as catalog:
            yield catalog
