"""Write the demo's two books, the corrected exports and a job over them into a folder.

The rows are the ones that `datarecs demo` loads; every start writes the same.
"""

import shutil
import sys
from pathlib import Path

from datarecs_cli.demo.books import write_csv, write_exports
from datarecs_cli.demo.entries import exports, ledger


def main(folder: Path) -> None:
    """Four files; existing ones are replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    job = Path(__file__).with_name("books.recon.yaml")
    shutil.copyfile(job, folder / job.name)
    write_csv(folder / "ledger.csv", ledger())
    write_exports(folder / "exports.parquet", exports(corrected=False))
    write_exports(folder / "corrected.parquet", exports(corrected=True))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
