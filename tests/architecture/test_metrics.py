"""Shipped code reports every metric of the catalogue, and a test checks its value."""

import re
from functools import cache
from pathlib import Path

import pytest

from datarecs_application.metrics import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE_FILES = {"metrics.py", "test_metrics.py", "alerts.py", "test_alerts.py"}
"""Files that contain metric names without reporting them."""
QUOTED, NAME = r'"([a-z][a-z0-9_]*)"', r"\b[a-z][a-z0-9_]*\b"


@cache
def words(pattern: str, *places: str) -> frozenset[str]:
    """Everything in the files that has this form."""
    names: set[str] = set()
    for place in places:
        for path in ROOT.glob(place):
            if path.name not in CATALOGUE_FILES:
                names |= set(re.findall(pattern, path.read_text(encoding="utf-8")))
    return frozenset(names)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_metric_of_the_catalogue_is_recorded_by_shipped_code(name: str) -> None:
    assert name in words(QUOTED, "libs/*/src/**/*.py", "services/*/src/**/*.py")


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_test_makes_it_move(name: str) -> None:
    shown = words(NAME, "libs/*/tests/**/*.py", "services/*/tests/**/*.py", "tests/*/*.py")
    suffixes = ("", "_count", "_sum", "_bucket")
    assert any(f"{prefix}{name}{end}" in shown for prefix in ("", "datarecs_") for end in suffixes)
