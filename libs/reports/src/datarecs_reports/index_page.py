"""A page of runs: newest first, with outcome, counts, amount and a link to each report.

Apart from the report because it shows many runs and the values of none.
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
    """RFC 3339; empty where the run does not say."""
    job: str
    outcome: str
    """MATCHED, UNMATCHED, or ERRORED where no verdict lies beside the report."""
    compared: str
    differing: str
    amount: str
    folder: str
    """Relative to the page, for people."""
    link: str
    """Relative to the page, as a URL; empty where no report lies there."""

    @property
    def sign(self) -> str:
        return SIGNS[self.outcome]

    @property
    def ended_text(self) -> str:
        return instant(self.ended) if self.ended else ""


def index_row(document: Mapping[str, object], *, folder: str, link: str) -> IndexRow:
    """The line of a run that reached a verdict.

    Args:
        document: its run.json.
        folder: relative to the page.
        link: to its report, relative to the page; empty where there is none.

    Raises:
        DocumentUnreadableError: the document is no run.json.
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
    """The line of a run that left a report and no run.json."""
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
    """By the moment a run ended, then by folder; runs that do not say it are last."""
    by_folder = sorted(rows, key=lambda row: row.folder)
    return sorted(by_folder, key=lambda row: row.ended, reverse=True)
