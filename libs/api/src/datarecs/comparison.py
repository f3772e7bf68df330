"""The result of a comparison: verdict, counts, differences, report, and an assertion for tests."""

import shutil
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, cast

import pyarrow as pa

from datarecs.errors import ArgumentError, Unmatched, explained
from datarecs.summary import summary_html, summary_text
from datarecs_cli.exporting import arrow_table, stored
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.saving import save
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_reports.decoding import run_facts
from datarecs_reports.first_screen import first_screen

Verdict = Literal["MATCHED", "UNMATCHED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of groups: rows with the same key, in any source."""

    compared: int
    """The sum of the other three."""
    matched: int
    """In every source, all measures equal or within tolerance."""
    outside: int
    """In every source, with a measure outside tolerance."""
    missing: int
    """Missing in a source."""


class Comparison:
    """The result of `compare`. Its files exist as long as this object, or stay in `out`."""

    def __init__(self, document: Mapping[str, object], folder: Path, *, is_temporary: bool) -> None:
        """Called by `compare`; `document` is run.json, `folder` has the files beside it."""
        self._document, self._files = document, OutFolder(folder)
        self._facts = run_facts(document)
        self._screen = first_screen(self._facts, samples=True)
        if is_temporary:
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @property
    def verdict(self) -> Verdict:
        """MATCHED if every group agrees in all sources."""
        return cast("Verdict", self._facts.result)

    @property
    def is_matched(self) -> bool:
        return self._facts.matched

    @property
    def counts(self) -> Counts:
        """How many groups were compared, and what happened to them."""
        screen = self._screen
        return Counts(
            compared=screen.compared,
            matched=screen.agreed,
            outside=screen.outside,
            missing=screen.unmatched,
        )

    @property
    def proof_hash(self) -> str:
        """Equal for equal data, question and answer, as in run.json."""
        return self._facts.proof_hash

    @property
    def warnings(self) -> tuple[str, ...]:
        """What limits the answer, such as differences that were counted but not stored."""
        return tuple(f"{each.code}: {each.message}" for each in self._facts.warnings)

    @property
    def run_json(self) -> Mapping[str, object]:
        """The stored proof and its run, as `datarecs verify` reads it."""
        return self._document

    def differences(self) -> pa.Table:
        """The stored differences, one row per key and measure.

        Returns:
            Columns of texts, so that every digit stays; NULL for absent values: `stage`,
            `key.<column>` for each key, `measure`, `class`, `value.<source>`, `delta.<source>` and
            `delta_percent.<source>` for each source, `odd_one_out`, `break_id` and
            `key_as_written.<source>`. `measure` is `$presence` for a group that a source does not
            have; its values are numbers of rows. Without differences the table has no rows.
        """
        with explained():
            run = sealed_run(self._document)
            layout, rows = stored(run, run.stages, self._files.differences)
            return arrow_table(rows, layout)

    def report(self, path: str | PathLike[str] | None = None) -> str:
        """The report as one HTML page without outside parts; with `path` also written there.

        Raises:
            ArgumentError: `path` is no path.
            DatarecsError: the file cannot be written.
        """
        page = self._files.report.read_bytes()
        with explained():
            if isinstance(path, str | PathLike):
                save(Path(path), page)
            elif path is not None:
                raise ArgumentError(f"path is a {type(path).__name__}; write the path of a file")
        return page.decode()

    def assert_matched(self) -> None:
        """Check the verdict in a test.

        Raises:
            Unmatched: with the first screen: how many, how much, the five largest differences.
        """
        __tracebackhide__ = True
        if not self.is_matched:
            raise Unmatched(str(self))

    def __str__(self) -> str:
        """The first screen as text."""
        return summary_text(self._screen, self._facts.source_names, self.warnings)

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"<Comparison {self.verdict}: {counts.matched:,} of {counts.compared:,} groups agree>"
        )

    def _repr_html_(self) -> str:
        """The first screen in a notebook."""
        return summary_html(self._screen, self._facts.source_names, self.warnings)
