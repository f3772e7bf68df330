"""The folder a local comparison leaves: run.json, report.html, differences/, and what it asks for.

Apart from the run because of what must never happen here: results of an earlier run that a failed
one removes, half a document, or a file of the user's swept away. Everything is written into a
folder inside it, which takes the place of the earlier results once it is complete.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from datarecs_cli.local.faults import OutNotWritableError
from datarecs_core.catalog.layout import segment
from datarecs_core.comparison.results.row_digests import FILE

DEFAULT = Path("datarecs-compare")
_PREPARED = ".new"
_OURS = ("part-*.parquet", "_SUCCESS", ".*.crc")
"""What engines write into the folder of a stage."""


class OutFolder:
    """One folder for one comparison; a complete one replaces what an earlier one left there.

    Args:
        root: as the user named it.
        shown: in messages; `root` unless this is where results are prepared.
    """

    def __init__(self, root: Path, *, shown: Path | None = None) -> None:
        self.root, self.shown = root, shown or root
        self.run_json = root / "run.json"
        self.report = root / "report.html"
        self.error = root / "error.html"
        """Of the latest run, where it failed."""
        self.digests = root / FILE
        self.differences = root / "differences"

    @contextmanager
    def preparing(self) -> Iterator["OutFolder"]:
        """A folder for the results of this run, which is removed again at the end.

        Raises:
            OutNotWritableError: the folder cannot be made or written, or a folder of differences
                has files that no comparison wrote.
        """
        prepared = OutFolder(self.root / _PREPARED, shown=self.shown)
        with self.storing():
            self._refuse_foreign_files()
            shutil.rmtree(prepared.root, ignore_errors=True)
            prepared.differences.mkdir(parents=True)
        try:
            yield prepared
        finally:
            shutil.rmtree(prepared.root, ignore_errors=True)

    def replace_by(self, prepared: "OutFolder", further: Iterable[str] = ()) -> None:
        """Remove the results of an earlier run, and those alone, and bring the new ones.

        Args:
            prepared: complete.
            further: names of files that this run may have written besides.

        Raises:
            OutNotWritableError: the folder cannot be written.
        """
        names = [self.error.name, self.digests.name, *further, self.report.name]
        with self.storing():
            self.run_json.unlink(missing_ok=True)  # first and last: it stands for all of them
            for stage in self.differences.glob("*/"):
                for part in (one for name in _OURS for one in stage.glob(name)):
                    part.unlink()
                stage.rmdir()
            self.differences.mkdir(exist_ok=True)
            for stage in prepared.differences.iterdir():
                stage.rename(self.differences / stage.name)
            for name in (*names, self.run_json.name):
                (self.root / name).unlink(missing_ok=True)
                if (prepared.root / name).exists():
                    (prepared.root / name).rename(self.root / name)

    def _refuse_foreign_files(self) -> None:
        """Before anything is compared, since their folder could not be replaced afterwards."""
        for stage in self.differences.glob("*/"):
            ours = {one for name in _OURS for one in stage.glob(name)}
            if set(stage.iterdir()) - ours:
                raise OutNotWritableError(self.shown, f"Directory not empty: {stage}")

    def settle(self, stage: str, location: str | None) -> None:
        """Bring a stage's differences to their published place, wherever the engine put them."""
        place = self.differences / f"stage={segment(stage)}"
        if location is not None and Path(location) != place:
            with self.storing():
                shutil.move(location, place)

    def store(self, path: Path, content: bytes) -> None:
        """Temporary name, then rename: a reader sees the whole file or none.

        Raises:
            OutNotWritableError: the file cannot be written, as on a full disk.
        """
        partial = path.with_name(f".{path.name}.partial")
        with self.storing():
            partial.write_bytes(content)
            partial.replace(path)

    def forget(self) -> None:
        """Remove the empty folders: there was no comparison.

        A folder that the user named stays.
        """
        ours = (self.root, DEFAULT) if self.root.parent == DEFAULT else ()
        for folder in ours:
            with suppress(OSError):  # it holds something
                folder.rmdir()

    @contextmanager
    def storing(self) -> Iterator[None]:
        """What cannot be written inside ends as OutNotWritableError."""
        try:
            yield
        except OSError as cause:
            raise OutNotWritableError(self.shown, cause.strerror or type(cause).__name__) from cause
