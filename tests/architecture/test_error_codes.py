"""Every error code is documented once, raised somewhere and shown by a test.

Read from the source, since a code may be raised by a class that carries it: a code counts as used
where its member or such a class is named outside the catalogue.
"""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from datarecs_cli.commands.errors import catalogue
from datarecs_core.errors.base import ErrorCode

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {"DR1", "DR2", "DR3", "DR4", "DR5", "DR6", "DR7"}
PUBLISHED_AHEAD: dict[str, str] = {}
"""Codes that no release raises yet, each with the reason."""
CARRIER = re.compile(
    r"^class (\w+)\([^)]*\):(?:(?!^class ).)*?^    code(?:: \w+)? = (\w+\.\w+)$",
    re.MULTILINE | re.DOTALL,
)
CODES = list(catalogue().values())
every_code = pytest.mark.parametrize("code", CODES, ids=lambda code: f"{code.docs_id} {code.name}")


@cache
def joined(*patterns: str, without: str = "datarecs_testing") -> str:
    return "\n".join(
        path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in sorted(ROOT.glob(pattern))
        if without not in str(path)
    )


def shipped() -> str:
    return joined("*/*/src/**/*.py")


def words_of(text: str) -> frozenset[str]:
    """Every name, and every pair of names with a dot between them."""
    return frozenset(re.findall(r"\w+", text)) | frozenset(re.findall(r"(?=\b(\w+\.\w+)\b)", text))


@cache
def raising_words() -> frozenset[str]:
    """Of shipped code without the catalogue itself."""
    return words_of(shipped().replace(joined("libs/core/src/datarecs_core/errors/*.py"), ""))


@cache
def words_of_tests() -> frozenset[str]:
    patterns = ("*/*/tests/**/*.py", "tests/**/*.py", "libs/testing/src/**/*.py")
    return words_of(joined(*patterns, without=Path(__file__).name))


@cache
def carriers() -> dict[str, list[str]]:
    """`SpecCode.X` to the exceptions that carry it."""
    classes: dict[str, list[str]] = {}
    for name, code in CARRIER.findall(shipped()):
        classes.setdefault(code, []).append(name)
    return classes


def names_of(code: ErrorCode) -> list[str]:
    member = f"{type(code).__name__}.{code.name}"
    return [member, *carriers().get(member, [])]


def is_raised(code: ErrorCode) -> bool:
    return not raising_words().isdisjoint(names_of(code))


def is_tested(code: ErrorCode) -> bool:
    return not words_of_tests().isdisjoint([*names_of(code), code.name, code.docs_id])


@pytest.mark.case("STY-05")
@pytest.mark.case("K50")
@every_code
def test_a_code_says_what_it_means_and_what_to_do(code: ErrorCode) -> None:
    entry = code.entry
    assert re.fullmatch(r"DR[1-7]\d{3}", entry.docs_id)
    assert entry.meaning.endswith(".")
    assert entry.causes.endswith(".")
    assert entry.remedy.endswith(".")


@pytest.mark.case("STY-05")
def test_no_docs_id_is_used_twice() -> None:
    members = [
        member
        for family in {type(code) for code in CODES}
        for member in family
        if family.__module__.startswith("datarecs_core.errors")
    ]
    counted = Counter(member.docs_id for member in members)
    assert [docs_id for docs_id, times in counted.items() if times > 1] == []
    assert len(members) == len(CODES)


@pytest.mark.case("STY-05")
def test_a_name_means_one_thing_or_is_one_fault_met_before_and_during_a_run() -> None:
    counted = Counter(code.name for code in CODES)
    twice = {name for name, times in counted.items() if times > 1}
    assert twice == {"AMBIGUOUS_COLUMN", "ZONE_REQUIRED"}


@pytest.mark.case("STY-05")
@every_code
def test_a_code_stands_on_the_page_of_errors(code: ErrorCode) -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    assert f"### {code.docs_id} {code.name}\n\n{code.entry.meaning}\n" in page


@pytest.mark.case("STY-05")
@every_code
def test_a_code_is_raised_and_shown_by_a_test(code: ErrorCode) -> None:
    if code.name in PUBLISHED_AHEAD:
        assert not is_raised(code), "it is raised now: remove it from PUBLISHED_AHEAD"
    else:
        assert is_raised(code)
        assert is_tested(code)


@pytest.mark.case("STY-05")
def test_a_code_that_nobody_raises_is_detected() -> None:
    class Lonely(ErrorCode):
        NEVER_RAISED_BY_ANYBODY = replace(CODES[0].entry, docs_id="DR1999")

    assert not is_raised(Lonely.NEVER_RAISED_BY_ANYBODY)
    assert not is_tested(Lonely.NEVER_RAISED_BY_ANYBODY)
