"""The rules of the house that no tool knows: members, sizes, names, importing without effect."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))
SHIPPED = [member for member in MEMBERS if member.name != "testing"]
LONGEST_MODULE, LONGEST_FUNCTION = 500, 60
REFUSED_MODULES = {"utils", "common", "helpers", "misc", "base", "manager"}
BASE_OF_ERRORS = "datarecs_core/errors/base.py"  # the root exception really is a base
REFUSED_CLASSES = {
    "Job": "ReconciliationJob or CaptureJob",
    "Task": "work item or attempt",
    "Manager": "a name for what it decides",
    "Helper": "a name for what it decides",
}
IMPORTING = """
import importlib, json, os, pkgutil, sys, threading
sys.dont_write_bytecode = True
effects, mine = {}, []
def hook(event, args):
    if event in ("socket.__new__", "socket.connect", "subprocess.Popen", "os.fork"):
        mine.append(event)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        mine.append(f"open {args[0]}")
def start(*args, begin=threading._start_new_thread):
    mine.append("thread")  # 3.11 has no audit event for it
    return begin(*args)
threading._start_new_thread = start
class Told(type(os.environ)):
    def __getitem__(self, name):
        asking = sys._getframe(1)
        while asking.f_code.co_filename.startswith(("<frozen ", os.__file__)):
            asking = asking.f_back
        if asking.f_globals.get("__name__", "").startswith("datarecs"):
            mine.append(f"environment {name}")
        return super().__getitem__(name)
for package in json.loads(sys.argv[1]):
    root = importlib.import_module(package)
    os.environ.__class__ = Told
    if not effects:
        sys.addaudithook(hook)
    mine.clear()
    for found in pkgutil.walk_packages(root.__path__, package + "."):
        if not found.name.endswith("__main__") and ".migrations" not in found.name:
            try:
                importlib.import_module(found.name)
            except Exception as error:
                mine.append(f"{found.name}: {error!r}")
    effects[package] = list(mine)
print(json.dumps(effects))
"""


def package_of(member: Path) -> str:
    if member.name == "api":
        return "datarecs"
    return f"datarecs_{member.name.replace('-', '_')}"


def modules(members: list[Path] = SHIPPED) -> Iterator[Path]:
    for member in members:
        yield from sorted((member / "src").rglob("*.py"))


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in modules():
        yield path, ast.parse(path.read_text(encoding="utf-8"))


@pytest.mark.case("ARC-06")
def test_every_member_is_known_to_the_import_contracts() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = set(config["tool"]["importlinter"]["root_packages"])
    assert declared == {
        path.name
        for member in MEMBERS
        for path in (member / "src").iterdir()
        if path.is_dir() and path.name.startswith("datarecs")
    }


@pytest.mark.case("ARC-07")
def test_core_depends_on_nothing() -> None:
    project = tomllib.loads((ROOT / "libs/core/pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dependencies"] == []


@pytest.fixture(scope="module")
def effects_of_importing() -> dict[str, list[str]]:
    """What each package did to the world while all its modules were imported, in one process."""
    result = subprocess.run(
        [sys.executable, "-c", IMPORTING, json.dumps([package_of(one) for one in SHIPPED])],
        capture_output=True,
        text=True,
        check=True,
    )
    effects: dict[str, list[str]] = json.loads(result.stdout)
    return effects


@pytest.mark.case("ARC-10")
@pytest.mark.parametrize("member", SHIPPED, ids=lambda member: member.name)
def test_importing_a_package_does_nothing(
    member: Path, effects_of_importing: dict[str, list[str]]
) -> None:
    assert effects_of_importing[package_of(member)] == []


@pytest.mark.case("ARC-10")
def test_what_importing_a_module_does_is_detected(tmp_path: Path) -> None:
    package = tmp_path / "datarecs_busy"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "busy.py").write_text(
        "import os, socket, threading\n"
        "socket.socket().close()\nthreading.Thread(target=int).start()\n"
        "open(os.devnull, 'w').close()\nos.environ['HOME']\nos.environ.get('PATH')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", IMPORTING, '["datarecs_busy"]'],
        env={"PYTHONPATH": str(tmp_path), "HOME": "/", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    (effects,) = json.loads(result.stdout).values()
    assert effects == [
        "socket.__new__",
        "thread",
        "open /dev/null",
        "environment HOME",
        "environment PATH",
    ]


@pytest.mark.case("ARC-11")
def test_modules_and_functions_stay_small() -> None:
    too_large = []
    for path, tree in trees():
        if "migrations" in path.parts:
            continue
        lines = path.read_text(encoding="utf-8").count("\n")
        if lines > LONGEST_MODULE:
            too_large.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    too_large.append(f"{path.relative_to(ROOT)} {node.name}: {length} lines")
    assert too_large == []


@pytest.mark.case("ARC-12")
def test_no_module_has_a_name_that_says_nothing() -> None:
    offences = [
        str(path.relative_to(ROOT))
        for path in modules()
        if path.stem in REFUSED_MODULES and not str(path).endswith(BASE_OF_ERRORS)
    ]
    assert offences == []


@pytest.mark.case("GLO-01")
def test_no_class_has_a_name_with_two_meanings() -> None:
    offences = [
        f"{path.relative_to(ROOT)}: {node.name}; say {REFUSED_CLASSES[node.name]}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name in REFUSED_CLASSES
    ]
    assert offences == []


@pytest.mark.case("GLO-02")
def test_sources_are_numbered_and_never_left_and_right() -> None:
    two_sided = re.compile(r"\b(left_\w+|right_\w+|df1|df2|side)\b")
    offences = []
    for member in ("core", "application", "spark"):
        for path in modules([ROOT / "libs" / member]):
            names = {
                node.id
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Name)
            }
            offences += [f"{path.relative_to(ROOT)}: {n}" for n in names if two_sided.fullmatch(n)]
    assert offences == []


@pytest.mark.case("STY-11")
def test_nine_of_ten_functions_of_core_fit_in_thirty_lines() -> None:
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in modules([ROOT / "libs/core"])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    )
    assert lengths[int(len(lengths) * 0.9)] <= 30


def test_every_module_says_what_it_decides() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path, tree in trees()
        if "migrations" not in path.parts and not ast.get_docstring(tree)
    ]
    assert silent == []


@pytest.mark.case("STY-01")
def test_every_exception_to_a_check_has_its_reason() -> None:
    bare = re.compile(r"#\s*(noqa: ?[A-Z0-9, ]+|type: ignore\[[^\]]+\])\s*$")
    offences = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [
            *modules(MEMBERS),
            *ROOT.glob("tests/**/*.py"),
            *ROOT.glob("*/*/tests/**/*.py"),
        ]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert offences == []


def unreasoned(config: str) -> list[str]:
    """Lines of ruff's tables of exceptions without a comment, on the line or right above."""
    lines = ["", *config.splitlines()]
    tables = ("ignore = [", "[tool.ruff.lint.per-file-ignores]")
    offences, inside = [], False
    for above, line in pairwise(lines):
        inside = line in tables or (inside and line not in {"", "]"})
        holds_codes = re.search(r'"[A-Z]+[0-9]*"', line)
        if inside and holds_codes and "#" not in line and not above.startswith("#"):
            offences.append(line)
    return offences


@pytest.mark.case("STY-01")
def test_every_exception_in_the_lists_of_the_linter_has_its_reason() -> None:
    config = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert unreasoned(config) == []


@pytest.mark.case("STY-01")
@pytest.mark.parametrize(
    "config",
    ['ignore = [\n  "T201",\n]', '[tool.ruff.lint.per-file-ignores]\n"libs/x/**" = ["T201"]\n'],
)
def test_an_exception_without_a_reason_is_detected(config: str) -> None:
    assert len(unreasoned(config)) == 1
