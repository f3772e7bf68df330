"""The Dockerfile and its lists of packages, without an engine (deploy 6, security 16)."""

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.image_packages import LISTS, lists

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "services/Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = [
    line.split(None, 1)
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()
    if line.strip()
]
LOCKED = set(
    re.findall(r"(?m)^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(encoding="utf-8"))
)


def words(instruction: str) -> list[str]:
    return [text for name, text in INSTRUCTIONS if name == instruction]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Stage to its instructions."""
    by_stage: dict[str, list[tuple[str, str]]] = {}
    current = "global"
    for name, text in INSTRUCTIONS:
        if name == "FROM":
            current = text.split()[-1]
        by_stage.setdefault(current, []).append((name, text))
    return by_stage


@pytest.mark.case("K24")
def test_every_base_is_pinned_by_digest() -> None:
    (base,) = [text for text in words("ARG") if text.startswith("BASE=")]
    assert re.fullmatch(r"BASE=[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}", base)
    assert {text.split()[0] for text in words("FROM")} == {"${BASE}", "build", "run"}
    assert "latest" not in DOCKERFILE


@pytest.mark.case("K24")
@pytest.mark.parametrize("image", ["datarecs", "datarecs-spark"])
def test_an_image_runs_as_a_number_under_tini(image: str) -> None:
    assert [text for name, text in stages()[image] if name == "USER"][-1] == "10001:10001"
    assert words("ENTRYPOINT") == ['["/usr/bin/tini", "--"]']
    assert words("HEALTHCHECK") == words("VOLUME") == words("EXPOSE") == []


@pytest.mark.case("K24")
def test_packages_are_installed_with_hashes_and_nothing_is_resolved() -> None:
    commands = [part for text in words("RUN") for part in re.split(r"&&|;", text)]
    installs = [part for part in commands if re.search(r"pip install", part)]
    assert len(installs) == 4
    (wheel,) = [part for part in installs if "--require-hashes" not in part]
    assert wheel.rstrip().endswith("--no-deps datarecs-*.whl")
    locked = [part for part in installs if part is not wheel]
    assert all("--no-deps" in part or "requirements-setup.lock" in part for part in locked)
    assert not any("pip install" in text for name, text in stages()["run"] if name == "RUN")


def test_the_lists_name_what_the_images_import() -> None:
    current = {path: path.read_text(encoding="utf-8") for path in lists()}
    assert current == lists(), "run: make lock-images"


def test_every_listed_package_is_locked() -> None:
    listed = [(ROOT / f"services/packages-{name}.txt").read_text().split() for name in LISTS]
    assert set().union(*listed) <= LOCKED
    assert "pyspark" in listed[1]
    assert "pyspark" not in listed[0]


def test_every_copied_file_is_in_the_context() -> None:
    rules = [
        line.strip("!\n")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    ]
    copied = [
        name
        for text in words("COPY")
        if not text.startswith("--from")
        for name in text.replace("${VERSION}", "0").split()[:-1]
    ]
    assert copied
    assert [name for name in copied if not any(fnmatchcase(name, rule) for rule in rules)] == []


def test_every_command_of_the_project_can_start_in_an_image() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    imported = " ".join(words("RUN"))
    for name, target in scripts.items():
        package = target.partition(".")[0]
        assert f"{package}." in imported or name == "datarecs-reconciliation-worker", name
