"""The decision records and their index agree."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs/decisions"


def test_every_decision_stands_in_the_index_under_its_title() -> None:
    index = dict(re.findall(r"\[\d{4}\]\((\S+?)\) \| (.+?) \|", (FOLDER / "README.md").read_text()))
    pages = {
        page.name: page.read_text(encoding="utf-8").splitlines()[0].split(" ", 2)[2]
        for page in FOLDER.glob("[0-9]*.md")
    }
    assert index == pages


def test_every_decision_says_what_enforces_it() -> None:
    silent = [
        page.name
        for page in FOLDER.glob("[0-9]*.md")
        if "**Enforced by.**" not in page.read_text(encoding="utf-8")
    ]
    assert silent == []
