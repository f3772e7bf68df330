"""The words: what pages and code call states, events and codes, against the enums and the glossary.

The glossary is written by people; these tests check that it is complete and alive.
"""

import ast
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import datarecs_core
from datarecs_cli.commands.errors import catalogue
from datarecs_core.access.permissions import Permission
from datarecs_core.comparison.expressions.functions import ENTRIES, FUNCTIONS
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.comparison.results.verdict import BREAKS_TRUNCATED
from datarecs_core.errors.base import ErrorCode, RunErrorCode
from datarecs_core.jobs.vocabulary import StageType, ToleranceType
from datarecs_core.notifications.mail import MailState
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunMode, RunResult, RunStatus
from datarecs_core.webhooks.delivery import DeliveryState
from datarecs_events.event_types import PREFIX, DataRecsEventType
from datarecs_events.topics import Topic

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
DESCRIBED = (
    *(Kind, RunStatus, RunResult, RunMode, RunErrorCode, Verdict),
    *(StageType, ToleranceType, DeliveryState, MailState),
)
"""The enums with a glossary row for every member."""
CASES = ROOT / "docs" / "spec" / "cases.md"
"""Says what later releases will have, too."""
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page != CASES),
]
SHIPPED = [
    path
    for path in [*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")]
    if "datarecs_testing" not in path.parts
]
SHOWN = [
    *(ROOT / "libs/cli/src").rglob("*.py"),
    *(
        path
        for path in (ROOT / "libs/reports/src").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ),
]
"""What people read: the command line, reports, mails."""
EVENT_WORD = re.compile(
    r"(?:io\.datarecs\.)?(?:reconciliation\.)?"
    r"(?:run|webhook|notification|resource)\.[a-z_]+(?:\.[a-z_]+)*"
)
FILE_NAMES = {"run.json", "run.date"}
"""Names with a dot that are no event: a file, a parameter of job files."""
CAPITALS = """
ACCESS ANALYZE BASE BEGIN BETWEEN BOOKMARK CHANGELOG COMMAND COMMIT COPY DKIM DROP ENGINE GRANT HKDF
HMAC HTTP HUGEINT IANA IMAGEFLAGS IMAGE_REGISTRY JSON KIND NAME ONLY OPTIONS PATH PGPASSWORD
PGSSLMODE PGSSLROOTCERT PLAIN POST PRIMARY PYSPARK_PYTHON README REPEATABLE REST ROLE SASL SASL_SSL
SBOM SCRAM SELECT SERVICE SHARE SIGHUP SIGKILL SIGTERM SSL_CERT_FILE STARTTLS SYNC TABLES TMPDIR
VACUUM VERSION WHERE YAML
"""
"""Other words in capitals on pages: abbreviations, HTTP methods, words of SQL."""


@cache
def known_words() -> frozenset[str]:
    """Members of all enums of core, by name and by value, error codes, and a warning of runs."""
    modules = [
        import_module(module.name)
        for module in walk_packages(datarecs_core.__path__, "datarecs_core.")
    ]
    enums = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Enum)
    }
    words = {member.name for one in enums for member in one}
    values = {str(m.value) for one in enums if not issubclass(one, ErrorCode) for m in one}
    return frozenset(words | values | {BREAKS_TRUNCATED})


@cache
def expression_words() -> frozenset[str]:
    """Words in capitals in the language of expressions and in its examples."""
    names = {name.upper() for name in FUNCTIONS}
    shown = " ".join(f"{one.syntax} {one.example}" for one in ENTRIES.values())
    return (
        frozenset(re.findall(r"[A-Z_]+", shown))
        | names
        | {"FALSE", "FROM", "TIMESTAMP", "TRUE", "VOID"}
    )


@cache
def event_names() -> frozenset[str]:
    """Every type, short and long, and their families."""
    names = set()
    for one in DataRecsEventType:
        short = one.removeprefix(PREFIX)
        parts = short.split(".")
        for end in range(1, len(parts) + 1):
            family = ".".join(parts[:end])
            names |= {family, PREFIX + family, family.removeprefix("reconciliation.")}
    return frozenset(names)


def unknown_codes(text: str) -> Iterator[str]:
    yield from sorted(set(re.findall(r"\bDR\d{4}\b", text)) - set(catalogue()))


def unknown_events(text: str) -> Iterator[str]:
    """Words spelt like an event type in code spans; a trailing glob means the family."""
    for word in re.findall(r"`([^`\s]+)`", text):
        name = word.removesuffix(".").removesuffix(".*").removesuffix(".**")
        if EVENT_WORD.fullmatch(name) and name not in event_names() | FILE_NAMES | set(Permission):
            yield word


def unknown_states(text: str) -> Iterator[str]:
    """Words in capitals that are neither a member of an enum nor a known abbreviation."""
    prose = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    prose = re.sub(r"DATARECS_[A-Z0-9_<>]+|\[[^\]]*\]\([^)]*\)", " ", prose)
    for word in re.findall(r"(?<![\w<./-])[A-Z][A-Z_]{3,}(?![\w>-])", prose):
        if word not in known_words() | expression_words() and word not in CAPITALS.split():
            yield word


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """String constants of a module, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


GENERATED = {"errors.md", "events.md", "metrics.md", "settings.md", "database.md", "mutation.md"}
pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.mark.case("GLO-03")
@pages
def test_states_events_and_codes_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert list(unknown_codes(text)) == []
    assert list(unknown_events(text)) == []
    if page.name not in GENERATED:
        assert list(unknown_states(text)) == []


@pytest.mark.case("GLO-03")
def test_words_that_do_not_exist_are_detected() -> None:
    assert list(unknown_codes("see DR9999 and DR1001")) == ["DR9999"]
    assert list(unknown_events("`run.finalized`, `run.finalised`, `run.stage.*`")) == [
        "run.finalized"
    ]
    assert list(unknown_states("a run is MATCHED, FINISHED or `IN_PROGRESS`")) == [
        "FINISHED",
        "IN_PROGRESS",
    ]


@pytest.mark.case("GLO-03")
def test_event_types_and_codes_in_code_exist() -> None:
    topics = set(Topic)
    unknown = []
    for path in SHIPPED:
        for line, text in texts_of(path):
            wrong = [one for one in re.findall(r"\bDR\d{4}\b", text) if one not in catalogue()]
            if text.startswith(PREFIX) and text != PREFIX and text not in topics:
                wrong += [text] if text.rstrip(".") not in event_names() else []
            unknown += [f"{path.relative_to(ROOT)}:{line} {one}" for one in wrong]
    assert unknown == []


@pytest.mark.case("GLO-04")
@pytest.mark.parametrize("path", SHOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_people_read_calls_a_run_failed_or_a_success(path: Path) -> None:
    if path.suffix == ".py":
        texts = [text for _, text in texts_of(path)]
    else:
        texts = [path.read_text(encoding="utf-8", errors="replace")]
    assert [one for text in texts for one in refused_words(text)] == []


def refused_words(text: str) -> list[str]:
    """Verdicts and ends have separate words; these belong to deliveries, mails and captures."""
    return re.findall(r"\b(?:FAILED|SUCCESS|SUCCEEDED|PASSED)\b", text)


@pytest.mark.case("GLO-04")
def test_the_refused_words_are_detected() -> None:
    assert refused_words("run FAILED; QUERY_FAILED; SUCCESS") == ["FAILED", "SUCCESS"]


def first_cells() -> list[str]:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows]


def words_in_code(cells: list[str]) -> set[str]:
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.case("GLO-05")
@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: one.__name__)
def test_every_member_has_its_row_in_the_glossary(described: type[Enum]) -> None:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| ")]
    members = set(re.findall(r"`([^`]+)`", "\n".join(rows)))
    assert {str(member.value) for member in described} - members == set()


@pytest.mark.case("GLO-06")
def test_every_code_word_of_the_glossary_is_in_the_code() -> None:
    assert words_in_code(first_cells()) - words_of_the_code() == set()


@pytest.mark.case("GLO-06")
def test_a_row_whose_word_is_gone_is_detected() -> None:
    assert words_in_code(["retired, `RetiredName`"]) - words_of_the_code() == {"RetiredName"}


@cache
def words_of_the_code() -> frozenset[str]:
    """Names of classes, functions, fields and parameters, and texts that are one word."""
    words: set[str] = set()
    for path in SHIPPED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                    words.add(name)
                case ast.Attribute(attr=name) | ast.Name(id=name):
                    words.add(name)
                case ast.Constant(value=str(text)) if text.replace("_", "").isalnum():
                    words.add(text)
                case _:
                    pass
    return frozenset(words)
