"""The report as one HTML file that needs nothing else: no script, no address, no second request.

Its own module because this is about the file: what a browser may do with it, how large it may be,
that every foreign text is escaped. What it says is decided in `page` and `words`.
"""

import base64
import hashlib
from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from datarecs_reports.decoding import run_facts
from datarecs_reports.ending import NO_VERDICT, ending_page
from datarecs_reports.figures import count
from datarecs_reports.model import RunFacts
from datarecs_reports.page import Amounts, page_of

MAX_BYTES = 2_000_000
_STYLE = "style.css"
_AMOUNTS = (
    Amounts(),
    Amounts(differences=10),
    Amounts(differences=5),
    Amounts(differences=2),
    Amounts(differences=1, measures=200),
    Amounts(differences=0, measures=100),
    Amounts(differences=0, measures=20),
    Amounts(differences=0, measures=5),
)
"""What is tried in turn until the page is small enough: samples shrink first."""


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
    made.globals["content_policy"] = _content_policy(made.get_template(_STYLE).render())
    return made


def _content_policy(style: str) -> str:
    """Nothing may be loaded or sent; the one style sheet is known by its hash."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def run_report(
    document: Mapping[str, object], run: Mapping[str, object], *, samples: bool
) -> bytes:
    """The page of a run that reached a verdict, below 2 MB.

    Args:
        document: its run.json.
        run: the run as the API shows it.
        samples: whether the reader may see values of rows; counts and totals always stand there.

    Raises:
        DocumentUnreadableError: the document is no run.json.
    """
    facts = run_facts(document, values=samples)
    page = b""
    for amounts in _AMOUNTS:
        page = _rendered(facts, run, amounts, samples=samples)
        if len(page) < MAX_BYTES:
            break
    return page


def _rendered(
    facts: RunFacts, run: Mapping[str, object], amounts: Amounts, *, samples: bool
) -> bytes:
    page = page_of(facts, run, amounts=amounts, samples=samples)
    return _environment().get_template("run.html.j2").render(page=page).encode()


def error_report(run: Mapping[str, object]) -> bytes:
    """The page of a run without a verdict: what happened, how far it came, what to do."""
    page = ending_page(run)
    template = _environment().get_template("ending.html.j2")
    return template.render(page=page, no_verdict=NO_VERDICT).encode()
