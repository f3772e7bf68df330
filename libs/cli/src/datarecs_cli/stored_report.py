"""The report of a result on this machine: a result folder of `compare`, or its run.json."""

from pathlib import Path

from datarecs_cli.evidence import RUN_JSON, NoJsonError, evidence_at
from datarecs_cli.invocation import UsageFault
from datarecs_cli.run_index import REPORT
from datarecs_cli.saving import save
from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_reports.junit import run_junit
from datarecs_reports.markdown import run_markdown


def is_result(place: Path) -> bool:
    """Whether a path is the result of one run."""
    return place.is_file() or (place / RUN_JSON).is_file()


def save_stored_report(place: Path, out: Path | None, form: str, suffix: str) -> Path:
    """Write the report of a stored result.

    Args:
        place: a result folder, or a run.json.
        out: the file to write; default `report` with the suffix, in the folder of the result.
        form: html, json, md or junit.
        suffix: the ending of a file of this form.

    Returns:
        The file. The page and run.json are copied only to `out`.

    Raises:
        UsageFault: the result cannot be read, or has no page.
        OutNotWritableError: the file cannot be written.
    """
    run_json = place / RUN_JSON if place.is_dir() else place
    stored = {"html": run_json.with_name(REPORT), "json": run_json}.get(form)
    content = _made(run_json, form) if stored is None else _bytes(stored)
    if stored is not None and out is None:
        return stored
    target = out or run_json.with_name(f"report{suffix}")
    save(target, content)
    return target


def _made(run_json: Path, form: str) -> bytes:
    try:
        document = evidence_at(run_json).document
        if not isinstance(document, dict):
            raise UsageFault(f"{run_json}: it is no result of a run")
        return run_junit(document) if form == "junit" else run_markdown(document, samples=True)
    except (NoJsonError, DocumentUnreadableError) as broken:
        raise UsageFault(f"{run_json}: {broken}") from broken


def _bytes(stored: Path) -> bytes:
    try:
        return stored.read_bytes()
    except OSError as cause:
        raise UsageFault(f"{stored}: {cause.strerror or 'it cannot be read'}") from cause
