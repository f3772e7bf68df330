"""A page of runs: newest first, with outcome, counts, amount and a link to each report.

It shows many runs, without values of rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datarecs_reports.decoding import run_facts
from datarecs_reports.figures import count, instant, visible
from datarecs_reports.first_screen import first_screen

SIGNS = {"MATCHED": "●", "UNMATCHED": "▲", "ERRORED": "✖"}


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """One run of a folder."""

    ended: str
    """RFC 3339; empty if the run has no time."""
    job: str
    outcome: str
    """MATCHED, UNMATCHED, or ERRORED if there is only a report without a run.json."""
    compared: str
    differing: str
    amount: str
    folder: str
    """Path relative to the page, for people."""
    link: str
    """URL relative to the page; empty without a report."""

    @property
    def sign(self) -> str:
        return SIGNS[self.outcome]

    @property
    def ended_text(self) -> str:
        return instant(self.ended) if self.ended else ""


def index_row(document: Mapping[str, object], *, folder: str, link: str) -> IndexRow:
    """The line of a run with a verdict.

    Args:
        document: its run.json.
        folder: path relative to the page.
        link: URL of its report relative to the page; empty without a report.

    Raises:
        DocumentUnreadableError: the document is not a run.json.
    """
    facts = run_facts(document, values=False)
    screen = first_screen(facts, samples=False)
    return IndexRow(
        ended=facts.run.maybe_part("times").maybe("ended_at") or "",
        job=visible(facts.job or "comparison"),
        outcome=facts.result,
        compared=count(screen.compared),
        differing=count(screen.compared - screen.agreed),
        amount=screen.headline,
        folder=folder,
        link=link,
    )


def ended_without_verdict(*, ended: str, folder: str, link: str) -> IndexRow:
    """The line of a run with a report and without a run.json."""
    return IndexRow(
        ended=ended,
        job="",
        outcome="ERRORED",
        compared="",
        differing="",
        amount="",
        folder=folder,
        link=link,
    )


def newest_first(rows: Sequence[IndexRow]) -> list[IndexRow]:
    """Sorts by end time, then by folder; runs without a time are last."""
    by_folder = sorted(rows, key=lambda row: row.folder)
    return sorted(by_folder, key=lambda row: row.ended, reverse=True)
