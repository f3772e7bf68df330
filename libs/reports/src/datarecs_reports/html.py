"""The report as one self-contained HTML file: no address, no second request.

This module decides the content policy, the size limit and the escaping of the file; `page` and
`words` decide its content.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from datarecs_reports.decoding import run_facts
from datarecs_reports.ending import NO_VERDICT, ending_page
from datarecs_reports.figures import count, visible
from datarecs_reports.index_page import IndexRow
from datarecs_reports.model import DifferenceFacts, RunFacts
from datarecs_reports.page import Amounts, Shown, page_of

MAX_BYTES = 2_000_000
_STYLE, _SCRIPT = "style.css", "browse.js"
_BROWSED = (10_000, 7_000, 5_000, 3_500, 2_000, 1_000, 500, 100)
_AMOUNTS = (
    *(Amounts(browsed=rows) for rows in _BROWSED),
    Amounts(browsed=0),
    Amounts(browsed=0, differences=10),
    Amounts(browsed=0, differences=5),
    Amounts(browsed=0, differences=2),
    Amounts(browsed=0, differences=1, measures=200),
    Amounts(browsed=0, differences=0, measures=100),
    Amounts(browsed=0, differences=0, measures=20),
    Amounts(browsed=0, differences=0, measures=5),
)
"""Amounts tried in turn until the page is small enough: fewer browse rows before fewer samples."""


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("datarecs_reports", "templates/report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["count"] = count
    style, script = (_digest(made.get_template(name).render()) for name in (_STYLE, _SCRIPT))
    made.globals["content_policy"] = (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    """Nothing may be loaded or sent; the one style sheet and the one script are allowed by hash."""
    return made


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def run_report(
    document: Mapping[str, object],
    run: Mapping[str, object],
    *,
    samples: bool,
    rows: Mapping[str, Sequence[DifferenceFacts]] | None = None,
) -> bytes:
    """The page of a run with a verdict, below 2 MB.

    Args:
        document: its run.json.
        run: the run as in the API; `folder` is the folder of a local comparison.
        samples: whether the reader may see values of rows; counts and totals are always shown.
        rows: its stored differences by stage, to filter and sort; without them, samples are shown.

    Raises:
        DocumentUnreadableError: the document is not a run.json.
    """
    facts = run_facts(document, values=samples)
    shown = Shown(samples=samples, rows=rows or {})
    page = b""
    for amounts in _AMOUNTS:
        page = _rendered(facts, run, amounts, shown)
        if len(page) < MAX_BYTES:
            break
    return page


def _rendered(facts: RunFacts, run: Mapping[str, object], amounts: Amounts, shown: Shown) -> bytes:
    page = page_of(facts, run, amounts=amounts, shown=shown)
    return _environment().get_template("run.html.j2").render(page=page).encode()


def error_report(run: Mapping[str, object]) -> bytes:
    """The page of a run without a verdict: the cause, the reached steps, what to do."""
    page = ending_page(run)
    template = _environment().get_template("ending.html.j2")
    return template.render(page=page, no_verdict=NO_VERDICT).encode()


def index_page(title: str, rows: Sequence[IndexRow], skipped: Sequence[str]) -> bytes:
    """The page of the runs of a folder, in the order given.

    Args:
        title: name of the folder.
        rows: one for each run.
        skipped: a sentence for each folder that could not be read.
    """
    template = _environment().get_template("index.html.j2")
    lines = [visible(line, most=300) for line in skipped]
    return template.render(title=visible(title), rows=rows, skipped=lines).encode()
