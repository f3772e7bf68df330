"""The result folder of a local comparison: run.json, report.html, differences/, further reports.

A failed run must never remove the results of an earlier one, no document may be half written, and
no file of the user may be deleted. So everything is first written into a folder inside, which
replaces the earlier results when it is complete.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EXDEV
from pathlib import Path

from datarecs_cli.local.faults import OutNotWritableError, reason_of
from datarecs_cli.saving import replacing
from datarecs_connectors.path_patterns import RESULTS
from datarecs_core.catalog.layout import segment
from datarecs_core.comparison.proof.run_json import SCHEMA
from datarecs_core.comparison.results.row_digests import FILE

DEFAULT = Path(RESULTS)
_PREPARED = ".new"
_SCHEMA_FAMILY = f"{SCHEMA.partition('/')[0]}/"
_MARK = b"datarecs"
"""In every page."""
_OURS = ("part-*.parquet", "_SUCCESS", ".*.crc")
"""Names of the files that engines write into the folder of a stage."""


class OutFolder:
    """One folder for one comparison; complete results replace those of an earlier comparison.

    Args:
        root: the folder as named by the user.
        shown: the folder in messages; `root`, except for the folder of prepared results.
        is_temporary: whether reports must not name it, because it will be removed.
    """

    def __init__(
        self, root: Path, *, shown: Path | None = None, is_temporary: bool = False
    ) -> None:
        self.root, self.shown, self.is_temporary = root, shown or root, is_temporary
        self.run_json = root / "run.json"
        self.report = root / "report.html"
        self.error = root / "error.html"
        """The report of the latest run if it failed."""
        self.digests = root / FILE
        self.differences = root / "differences"

    @contextmanager
    def preparing(self) -> Iterator["OutFolder"]:
        """A folder for the results of this run; it is removed at the end.

        Raises:
            OutNotWritableError: the folder cannot be made or written, or a folder of differences
                has files that are not from a comparison.
        """
        prepared = OutFolder(
            self.root / _PREPARED, shown=self.shown, is_temporary=self.is_temporary
        )
        with self.storing():
            self._refuse_foreign_files()
            shutil.rmtree(prepared.root, ignore_errors=True)
            prepared.differences.mkdir(parents=True)
        try:
            yield prepared
        finally:
            shutil.rmtree(prepared.root, ignore_errors=True)

    def replace_by(self, prepared: "OutFolder", further: Iterable[str] = ()) -> None:
        """Replace the results of an earlier run, and no other files, with the new results.

        Args:
            prepared: the folder with complete results.
            further: names of further files that this run may have written.

        Raises:
            OutNotWritableError: the folder cannot be written.
        """
        names = [self.error.name, self.digests.name, *further, self.report.name]
        with self.storing():
            self.run_json.unlink(
                missing_ok=True
            )  # removed first and written last: it marks complete results
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
        """Check before the comparison that the results can be replaced after it."""
        foreign = self._foreign_file()
        if foreign is not None:
            reason = f"its {foreign.name} is no result of a comparison and would be replaced"
            raise OutNotWritableError(self.shown, reason)
        for stage in self.differences.glob("*/"):
            ours = {one for name in _OURS for one in stage.glob(name)}
            if set(stage.iterdir()) - ours:
                raise OutNotWritableError(self.shown, f"Directory not empty: {stage}")

    def _foreign_file(self) -> Path | None:
        """A file with the name of a result that no comparison wrote."""
        if self.run_json.exists():
            return None if _is_run_json(self.run_json) else self.run_json
        pages = (page for page in (self.report, self.error) if page.exists())
        return next((page for page in pages if _MARK not in page.read_bytes()), None)

    def settle(self, stage: str, location: str | None) -> None:
        """Move a stage's differences from the engine's folder to their published place."""
        place = self.differences / f"stage={segment(stage)}"
        if location is not None and Path(location) != place:
            with self.storing():
                _move(Path(location), place)

    def store(self, path: Path, content: bytes) -> None:
        """Write to a temporary name, then rename: a reader sees the whole file or none.

        Raises:
            OutNotWritableError: the file cannot be written, as on a full disk.
        """
        with replacing(path, shown=self.shown) as partial:
            partial.write_bytes(content)

    def forget(self) -> None:
        """Remove the empty folders if there was no comparison.

        A folder that the user named stays.
        """
        ours = (self.root, DEFAULT) if self.root.parent == DEFAULT else ()
        for folder in ours:
            with suppress(OSError):  # the folder is not empty
                folder.rmdir()

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Turn errors of writing into OutNotWritableError."""
        try:
            yield
        except OSError as cause:
            raise OutNotWritableError(self.shown, reason_of(cause)) from cause


def _is_run_json(path: Path) -> bool:
    try:
        document = json.loads(path.read_bytes())
    except ValueError:
        return False
    return isinstance(document, dict) and str(document.get("schema", "")).startswith(_SCHEMA_FAMILY)


def _move(folder: Path, place: Path) -> None:
    """Move a folder of files, also to another disk; `shutil.move` would hide why it fails."""
    try:
        folder.rename(place)
    except OSError as cause:
        if cause.errno != EXDEV:
            raise
        place.mkdir()
        for file in folder.iterdir():
            shutil.copyfile(file, place / file.name)
        shutil.rmtree(folder, ignore_errors=True)
