"""The folder a local comparison leaves: run.json, report.html, differences/, and what it asks for.

Apart from the run because of what must never happen here: a verdict of an earlier run beside the
error of this one, half a document, or a file of the user's swept away.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from datarecs_cli.local.faults import OutNotWritableError
from datarecs_core.catalog.layout import segment
from datarecs_core.comparison.results.row_digests import FILE

DEFAULT = Path("datarecs-compare")
_OURS = ("part-*.parquet", "_SUCCESS", ".*.crc")
"""What engines write into the folder of a stage."""


class OutFolder:
    """One folder for one comparison; what an earlier one left there is replaced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_json = root / "run.json"
        self.report = root / "report.html"
        self.digests = root / FILE
        self.differences = root / "differences"

    def prepare(self, further: Iterable[str] = ()) -> None:
        """Make the folder and remove the files of an earlier comparison, and those alone.

        Args:
            further: names of files that this one writes besides.

        Raises:
            OutNotWritableError: the folder cannot be made or written.
        """
        with self.storing():
            self.root.mkdir(parents=True, exist_ok=True)
            self.run_json.unlink(missing_ok=True)
            self.report.unlink(missing_ok=True)
            self.digests.unlink(missing_ok=True)
            for name in further:
                (self.root / name).unlink(missing_ok=True)
            for stage in self.differences.glob("*/"):
                for part in (one for name in _OURS for one in stage.glob(name)):
                    part.unlink()
                stage.rmdir()
            self.differences.mkdir(exist_ok=True)

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
        """Take the empty folders away again: there was no comparison.

        A folder that the user named stays.
        """
        ours = (self.root, DEFAULT) if self.root.parent == DEFAULT else ()
        for folder in (self.differences, *ours):
            with suppress(OSError):  # it holds something
                folder.rmdir()

    @contextmanager
    def storing(self) -> Iterator[None]:
        """What cannot be written inside ends as OutNotWritableError."""
        try:
            yield
        except OSError as cause:
            raise OutNotWritableError(self.root, cause.strerror or type(cause).__name__) from cause
