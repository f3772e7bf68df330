"""The further reports that a job declares; run.json and report.html are always written.

The writers are those of `compare -o md`, `--junit` and `export`; this module names their files.
"""

from collections.abc import Mapping, Sequence

from datarecs_cli.local.folder import OutFolder
from datarecs_core.comparison.proof.sealed import SealedRun
from datarecs_core.jobs.vocabulary import ReportFormat

NAMES: Mapping[ReportFormat, str] = {
    ReportFormat.MARKDOWN: "report.md",
    ReportFormat.JUNIT: "junit.xml",
    ReportFormat.CSV: "mismatches.csv",
    ReportFormat.XLSX: "mismatches.xlsx",
    ReportFormat.PARQUET: "mismatches.parquet",
}


def further(forms: Sequence[ReportFormat]) -> tuple[ReportFormat, ...]:
    """The reports to write, each once, in the order of the job."""
    return tuple(dict.fromkeys(form for form in forms if form in NAMES))


def write(
    form: ReportFormat, document: Mapping[str, object], run: SealedRun, out: OutFolder
) -> str | None:
    """Write one report; returns the reason if the format cannot hold it, else None.

    Raises:
        OutNotWritableError: the file cannot be written, as on a full disk.
    """
    target = out.root / NAMES[form]
    match form:
        case ReportFormat.MARKDOWN:
            from datarecs_reports.markdown import run_markdown

            out.store(target, run_markdown(document, samples=True))
        case ReportFormat.JUNIT:
            from datarecs_reports.junit import run_junit

            out.store(target, run_junit(document))
        case _:
            from datarecs_cli.exporting import ExportForm, TooManyForXlsxError, export, stored

            layout, rows = stored(run, run.stages, out.differences)
            try:
                export(rows, layout, ExportForm(form.value), target)
            except TooManyForXlsxError as reason:
                return f"not written  {out.shown / target.name}: {reason}"
    return None
