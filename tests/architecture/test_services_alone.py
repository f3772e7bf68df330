"""A service runs with what it declares: everything else that is installed here is hidden from it.

In place of an environment per service: the distributions reachable from its metadata are
computed, and a process in which all others cannot be imported loads every module and shows help.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
FACES = [*sorted(path.name for path in (ROOT / "services").iterdir() if path.is_dir()), "cli"]
MEMBERS = {
    project["name"]: project
    for path in ROOT.glob("*/*/pyproject.toml")
    for project in [tomllib.loads(path.read_text(encoding="utf-8"))["project"]]
}
PROGRAM = """
import json, pkgutil, runpy, sys
from importlib import import_module
package, hidden = sys.argv[1], set(json.loads(sys.argv[2]))
class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"{name} is not declared by {package}", name=name)
sys.meta_path.insert(0, Hiding())
for found in pkgutil.walk_packages(import_module(package).__path__, package + "."):
    if not found.name.endswith("__main__"):
        import_module(found.name)
sys.argv = [package, "--help"]
runpy.run_module(package, run_name="__main__", alter_sys=True)
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(
    name: str, extras: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """The requirements of a distribution on this machine, with their extras."""
    project = MEMBERS.get(name)
    for text in distribution(name).requires or [] if project is None else project["dependencies"]:
        requirement = Requirement(text)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield normal(requirement.name), frozenset(requirement.extras)


def closure(name: str) -> set[str]:
    """The distribution and all that it needs, however far."""
    waiting, seen = [(normal(name), frozenset[str]())], set()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += declared(*one)
    return {name for name, _ in seen}


def modules_of(installed: Distribution) -> set[str]:
    """The names it is imported by; none of the checkout's, since editable files are not listed."""
    tops = {Path(str(file)).parts[0] for file in installed.files or []}
    return {top.partition(".")[0] for top in tops if not top.endswith((".dist-info", ".pth", ".."))}


@cache
def installed() -> dict[str, set[str]]:
    modules = {normal(one.name): modules_of(one) for one in distributions()}
    return modules | {name: {name.replace("-", "_")} for name in MEMBERS}


def alone(package: str, owner: str) -> subprocess.CompletedProcess[str]:
    """Load the package and print its help while only what the owner declares can be imported."""
    needed = closure(owner)
    visible = {module for name in needed for module in installed()[name]}
    hidden = {module for modules in installed().values() for module in modules} - visible
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, package, json.dumps(sorted(hidden))],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.case("ARC-09")
@pytest.mark.parametrize("name", FACES)
def test_a_face_loads_and_helps_with_what_it_declares(name: str) -> None:
    package = f"datarecs_{name.replace('-', '_')}"
    result = alone(package, f"datarecs-{name}")
    assert result.returncode == 0, result.stderr
    assert ("DATARECS_PROFILE" if name != "cli" else "usage: datarecs") in result.stdout


@pytest.mark.case("ARC-09")
def test_a_service_without_its_dependencies_does_not_load() -> None:
    result = alone("datarecs_run_controller", "datarecs-core")
    assert result.returncode == 1
    assert "datarecs_run_controller is not declared" in result.stderr


def test_tools_and_test_code_are_no_part_of_a_service() -> None:
    tools = {"pytest", "mypy", "ruff", "hypothesis", "datarecs-testing", "datarecs-cli"}
    assert closure("datarecs-core-api") & tools == set()
