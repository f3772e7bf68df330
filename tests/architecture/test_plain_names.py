"""Names of source and tests say what a thing is or does, in the words of the field.

Some roots are refused: names made of them say how somebody came by a value instead of what it is.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSED = frozenset(
    [
        "tell",
        "tells",
        "told",
        "telling",
        "found",
        "ask",
        "asks",
        "asked",
        "asking",
        "look",
        "looks",
        "looked",
        "looking",
        "hear",
        "hears",
        "heard",
        "hearing",
        "keep",
        "keeps",
        "kept",
        "keeping",
        "own",
        "owns",
        "owned",
        "owning",
        "give",
        "gives",
        "gave",
        "given",
        "giving",
        "several",
    ]
)
"""`find_column` is a verb and stands; a value called `found` does not say what it is."""
TERMS = ("not_found", "keep_alive", "keepalive")
"""Of HTTP and TCP."""
PUBLISHED: dict[str, str] = {
    "keep_last": "field of targets of a RetentionPolicy",
    "KEEP": "the word `keep` of the fields `empty` and `null` of a job",
    "FIELD_GIVEN_TWICE": "error code DR1005",
    "PART_KEEPS_DYING": "error code DR5011",
    "own_within_count": "field of the event `run.comparison.completed`",
}
"""Names that are also text on a wire, in a table or in a specification, and where."""


def words(name: str) -> list[str]:
    """`FeedLook` and `feed_look` are the same two words."""
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    for term in TERMS:
        plain = plain.replace(term, "")
    return plain.split("_")


def is_refused(name: str) -> bool:
    return name not in PUBLISHED and not REFUSED.isdisjoint(words(name))


def defined_names(source: str) -> Iterator[tuple[int, str]]:
    """Every name that a module defines, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield node.lineno, name


def modules() -> list[Path]:
    return sorted(path for member in ("libs", "services") for path in ROOT.glob(f"{member}/*/src"))


def folders_of_tests() -> list[Path]:
    return sorted([*ROOT.glob("libs/*/tests"), *ROOT.glob("services/*/tests"), ROOT / "tests"])


def refused_names(paths: Iterable[Path]) -> list[str]:
    """Every refused name that the modules define, with its place."""
    refused = []
    for path in sorted(paths):
        place = path.relative_to(ROOT)
        if is_refused(path.stem):
            refused.append(str(place))
        refused += [
            f"{place}:{line}: {name}"
            for line, name in defined_names(path.read_text(encoding="utf-8"))
            if is_refused(name)
        ]
    return refused


@pytest.mark.parametrize("source", modules(), ids=lambda path: path.parent.name)
def test_names_of_the_source_are_plain(source: Path) -> None:
    refused = refused_names(source.rglob("*.py"))
    assert refused == [], "\n" + "\n".join(refused)


@pytest.mark.parametrize("folder", folders_of_tests(), ids=lambda path: str(path.relative_to(ROOT)))
def test_names_of_tests_are_plain(folder: Path) -> None:
    refused = refused_names(folder.rglob("*.py"))
    assert refused == [], "\n" + "\n".join(refused)


def test_names_of_the_root_are_plain() -> None:
    assert refused_names(ROOT.glob("*.py")) == []


def test_titles_of_decisions_are_plain() -> None:
    titles = {path.name: path.stem.split("-")[1:] for path in ROOT.glob("docs/decisions/0*.md")}
    assert [name for name, title in titles.items() if not REFUSED.isdisjoint(title)] == []


def test_every_published_name_is_still_defined() -> None:
    names = {
        name
        for source in modules()
        for path in source.rglob("*.py")
        for _line, name in defined_names(path.read_text(encoding="utf-8"))
    }
    assert set(PUBLISHED) - names == set()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("found", True),
        ("FeedLook", True),
        ("_told_of", True),
        ("MOST_KEPT", True),
        ("find_column", False),
        ("RUN_NOT_FOUND", False),
        ("KeepAlive", False),
        ("owner", False),
        ("lookup", False),
        ("task", False),
    ],
)
def test_roots_count_as_whole_words(name: str, *, expected: bool) -> None:
    assert is_refused(name) is expected
