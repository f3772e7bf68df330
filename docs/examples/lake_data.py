"""Write the demo's exports into a folder, as a Parquet file and as an Iceberg table, and a job.

The table is loaded in two commits and tagged; then the corrected exports take its rows' place.
Its catalog is one SQLite file, so that nothing has to run.
"""

import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from datarecs_cli.demo.books import write_exports
from datarecs_cli.demo.entries import exports

FIRST_LOAD = 600
"""Rows of the first of two commits."""


def main(folder: Path) -> None:
    """The folder must not hold a lake yet."""
    lake = folder.resolve() / "lake"
    lake.mkdir(parents=True)
    job = Path(__file__).with_name("lake.recon.yaml")
    shutil.copyfile(job, folder / job.name)
    write_exports(folder / "exports.parquet", exports(corrected=False))
    write_exports(folder / "corrected.parquet", exports(corrected=True))
    loaded, corrected = (
        pq.read_table(folder / f"{name}.parquet") for name in ("exports", "corrected")
    )
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    catalog.create_namespace("books")
    table = catalog.create_table("books.exports", loaded.schema)
    table.append(loaded.slice(0, FIRST_LOAD))
    table.append(loaded.slice(FIRST_LOAD))
    table.manage_snapshots().create_tag(table.history()[-1].snapshot_id, "as-loaded").commit()
    table.overwrite(corrected)
    catalog.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
