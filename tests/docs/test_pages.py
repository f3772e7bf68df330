"""What the pages say exists: commands, flags, targets, settings, links, and declarations that hold.

Each check is a function that lists faults, so that its test can show it a faulty text.
"""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from datarecs_cli.invocation import HELP
from datarecs_cli.main import COMMANDS, load, run
from datarecs_core.runs.transitions import state_diagram
from datarecs_runtime.settings import EXEMPT_NAMES, EXEMPT_PREFIXES, known_names

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = {"cases.md", "errors.md", "events.md", "metrics.md", "settings.md", "database.md"}
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "UPGRADING.md")
    ),
    *sorted(DOCS.rglob("*.md")),
]
WRITTEN = [path for path in PAGES if path.name not in GENERATED]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
GLOBAL_FLAGS = {word.strip(",") for left, _ in HELP for word in left.split() if word[0] == "-"}

named = pytest.mark.parametrize("page", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(text: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text) if language in languages]


def command_lines(text: str) -> Iterator[str]:
    """Lines of shell blocks and inline code that call us or make."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    for line in [*lines, *INLINE.findall(FENCE.sub("", text))]:
        command = line.partition(" # ")[0].partition(" < ")[0].strip()
        if re.match(r"(\S*/)?datarecs( |$)|make [a-z]", command):
            yield command


def wrong_commands(text: str) -> Iterator[str]:
    """Commands that do not exist, and flags that a command does not have."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in command_lines(text):
        program, *words = shlex.split(line)
        if program == "make":
            if words[0] not in targets:
                yield line
        elif words and words[0] != "COMMAND":
            yield from (f"{line}: {fault}" for fault in _faults_of(words))


def _faults_of(words: list[str]) -> Iterator[str]:
    commands = [command for command in COMMANDS if command.name == words[0]]
    if not commands:
        if words[0] not in GLOBAL_FLAGS:
            yield f"there is no command {words[0]}"
        return
    command = typer.main.get_command(load(commands[0]))
    rest = words[1:]
    while (subcommands := getattr(command, "commands", {})) and rest:
        if rest[0] not in subcommands:
            yield f"there is no {words[0]} {rest[0]}"
            return
        command, rest = subcommands[rest[0]], rest[1:]
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for word in rest:
        flag = word.partition("=")[0]
        if flag.startswith("-") and flag != "-" and flag not in flags | GLOBAL_FLAGS:
            yield f"{words[0]} has no flag {flag}"


def wrong_settings(text: str) -> Iterator[str]:
    for name in re.findall(r"\bDATARECS_[A-Z0-9_]*[A-Z0-9]\b", text):
        exempt = name in EXEMPT_NAMES or name.startswith(EXEMPT_PREFIXES)
        if not exempt and name not in known_names():
            yield name


def wrong_links(text: str, folder: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", text)):
        place, _, anchor = target.partition("#")
        if "://" in place:
            continue
        path = folder / place
        if not path.exists() or (anchor and anchor not in _anchors(path)):
            yield target


def _anchors(path: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@named
def test_every_command_target_setting_and_link_of_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert list(wrong_commands(text)) == []
    assert list(wrong_settings(text)) == []
    assert list(wrong_links(text, page.parent)) == []


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (wrong_commands, "```sh\ndatarecs reckon\n```"),
        (wrong_commands, "`datarecs admin tenants`"),
        (wrong_commands, "`datarecs up --datadir x`"),
        (wrong_commands, "`make everything`"),
        (wrong_settings, "`DATARECS_DATABASE__URI`"),
        (lambda text: wrong_links(text, DOCS), "[gone](gone.md)"),
        (lambda text: wrong_links(text, DOCS), "[gone](glossary.md#gone)"),
    ],
)
def test_what_does_not_exist_is_detected(find: Callable[[str], Iterator[str]], text: str) -> None:
    assert len(list(find(text))) == 1


@named
def test_every_declaration_on_a_page_is_sound(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page.read_text(encoding="utf-8"), "yaml")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block, encoding="utf-8")
        assert run(["validate", str(file)]) == 0


@named
def test_python_on_a_page_is_python(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        ast.parse(block)


@named
def test_a_page_says_what_it_answers_before_anything_else(page: Path) -> None:
    title, blank, answer = page.read_text(encoding="utf-8").split("\n")[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert answer


def missing_modules(text: str) -> Iterator[str]:
    """Modules that the way from file to difference names and no package has."""
    way = text.partition("## From file to difference")[2].partition("\n## ")[0]
    rows = [row.split(" | ")[-1] for row in way.splitlines() if re.match(r"\| \d", row)]
    named = {"kernel": rows, "spark": re.findall(r"^`datarecs_spark` has.*", way, re.MULTILINE)}
    for package, parts in named.items():
        folder = ROOT / f"libs/{package}/src/datarecs_{package}"
        names = {name for part in parts for name in INLINE.findall(part)} - {"core", folder.name}
        yield from sorted(name for name in names if not (folder / f"{name}.py").exists())


def test_the_way_from_file_to_difference_names_modules_that_exist() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert list(missing_modules(page)) == []
    renamed = page.replace("`first_reading`", "`second_reading`").replace(
        "`partitions`", "`papers`"
    )
    assert list(missing_modules(renamed)) == ["second_reading", "papers"]


@pytest.mark.case("K49")
def test_the_generated_pages_are_what_the_code_says() -> None:
    result = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.case("K49")
def test_sizes_rest_on_figures_of_each_process() -> None:
    events = (DOCS / "benchmarks-events.md").read_text(encoding="utf-8")
    resources = (DOCS / "benchmarks-resources.md").read_text(encoding="utf-8")
    for page, figure in (
        (events, "relay, 20,000 events over 16 shards"),
        (events, "datarecs runs, one by one"),
        (resources, "reconciles that change nothing, one process"),
        (resources, "schedules due at once, two processes"),
    ):
        row = next(line for line in page.splitlines() if figure in line)
        assert re.search(r"\| [\d,]+ [^|]*/s \|", row), row


@pytest.mark.case("ARC-15")
def test_the_life_of_a_run_shows_the_transitions_of_the_code() -> None:
    text = (DOCS / "life-of-a-run.md").read_text(encoding="utf-8")
    assert blocks(text, "mermaid") == [state_diagram()]


def test_every_page_stands_in_the_index() -> None:
    linked = set(LINK.findall((DOCS / "README.md").read_text(encoding="utf-8")))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}
    assert {page for page in pages if not page.startswith("decisions/0")} <= linked


def test_fragments_of_the_changelog_say_which_kind_they_are() -> None:
    kinds = {"added", "changed", "fixed", "removed", "security"}
    folder = ROOT / "changelog.d"
    for path in folder.glob("*.md"):
        issue, kind, _ = path.name.split(".")
        assert issue.isdigit()
        assert kind in kinds
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
