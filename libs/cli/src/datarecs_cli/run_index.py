"""The index page of the runs in a folder; `datarecs report DIR` writes it as index.html.

Only files inside the folder are read and linked; symbolic links are not followed.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from datarecs_cli.evidence import RUN_JSON, NoJsonError, evidence_at
from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.proof.reading import DocumentUnreadableError, whole
from datarecs_core.comparison.proof.run_json import MAX_BYTES
from datarecs_core.values import instant_text
from datarecs_reports.html import index_page
from datarecs_reports.index_page import (
    IndexRow,
    ended_without_verdict,
    index_row,
    newest_first,
)

REPORT, INDEX = "report.html", "index.html"
_DEEPEST = 3
"""Levels of folders below the named folder."""
MOST_RUNS = 2_000


def run_index(root: Path) -> tuple[bytes, int]:
    """The page of all runs in a folder, and their number.

    Raises:
        UsageFault: the folder has no runs.
    """
    rows: list[IndexRow] = []
    skipped: list[str] = []
    for folder in _folders(root):
        try:
            rows.append(_row(root, folder))
        except (UsageFault, NoJsonError, DocumentUnreadableError) as broken:
            skipped.append(f"{folder.relative_to(root)}: not listed, {broken}")
    if not rows:
        raise UsageFault(
            f"{root}: the folder has no runs; add one with: datarecs compare … --out {root}/NAME"
        )
    shown = newest_first(rows)[:MOST_RUNS]
    if len(shown) < len(rows):
        skipped.append(f"{len(rows) - len(shown):,} older runs are not listed")
    return index_page(root.resolve().name, shown, skipped), len(shown)


def _folders(root: Path) -> Iterator[Path]:
    """Folders with a run.json or a report; does not follow links."""
    for place, names, files in os.walk(root, followlinks=False):
        folder = Path(place)
        if len(folder.relative_to(root).parts) >= _DEEPEST:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith((".", "stage=")))
        if any(name in files and not (folder / name).is_symlink() for name in (RUN_JSON, REPORT)):
            yield folder


def _row(root: Path, folder: Path) -> IndexRow:
    shown = str(folder.relative_to(root))
    report, document = folder / REPORT, folder / RUN_JSON
    is_there = report.is_file() and not report.is_symlink()
    link = quote((folder.relative_to(root) / REPORT).as_posix()) if is_there else ""
    if document.is_symlink() or not document.is_file():
        ended = datetime.fromtimestamp(report.stat().st_mtime, tz=UTC)
        return ended_without_verdict(ended=instant_text(ended), folder=shown, link=link)
    if document.stat().st_size > MAX_BYTES:
        raise UsageFault(f"{RUN_JSON} is larger than {MAX_BYTES:,} bytes")
    return index_row(whole(evidence_at(document).document).content, folder=shown, link=link)
