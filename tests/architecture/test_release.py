"""`make release`: one version, and a changelog of the fragments."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("towncrier", reason="towncrier is not installed; run make setup")
ROOT = Path(__file__).resolve().parents[2]


def release_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tests/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = release_module()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that a release changes, in a repository, as towncrier removes fragments by git."""
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    chart = tmp_path / "charts/datarecs/Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text('name: datarecs\nversion: 0.1.0\nappVersion: "0.1.0"\nkubeVersion: ">=1.27"\n')
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x"]
    subprocess.run(["git", *commit], cwd=tmp_path, check=True)
    return tmp_path


def test_a_release_moves_every_fragment_and_sets_one_version(checkout: Path) -> None:
    lines = [
        line
        for path in (checkout / "changelog.d").glob("*.md")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("- ")
    ]
    before = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    assert str(release.release(checkout, "9.1.0")) == "9.1.0"
    changelog = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    written = changelog.splitlines()
    assert [line for line in lines if line not in written] == []
    assert written.count("### Added") == written.count("### Fixed") == 1
    assert changelog.index("<!-- releases -->") < changelog.index("## 9.1.0 - ")
    assert list((checkout / "changelog.d").glob("*.md")) == []
    after = (checkout / "pyproject.toml").read_text(encoding="utf-8")
    assert after == before.replace('version = "0.1.0"', 'version = "9.1.0"', 1)
    chart = (checkout / "charts/datarecs/Chart.yaml").read_text(encoding="utf-8")
    assert chart == ('name: datarecs\nversion: 9.1.0\nappVersion: "9.1.0"\nkubeVersion: ">=1.27"\n')


def test_the_second_release_is_above_the_first(checkout: Path) -> None:
    release.release(checkout, "9.1.0")
    (checkout / "changelog.d/30.fixed.md").write_text("- A fault is gone.\n")
    release.release(checkout, "9.2.0")
    changelog = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changelog.index("## 9.2.0 - ") < changelog.index("- A fault is gone.")
    assert changelog.index("- A fault is gone.") < changelog.index("## 9.1.0 - ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "make release VERSION=0.2.0"),
        ("new", "is not a version"),
        ("0.0.9", "is earlier than"),
        ("9.1.0rc1", "is not of the form"),
        ("9.1", "is not of the form"),
    ],
)
def test_a_wrong_version_is_refused(checkout: Path, text: str, said: str) -> None:
    with pytest.raises(release.ReleaseRefusedError, match=said):
        release.release(checkout, text)
    assert "0.0.9" not in (checkout / "pyproject.toml").read_text(encoding="utf-8")


def test_a_release_without_a_change_is_refused(checkout: Path) -> None:
    shutil.rmtree(checkout / "changelog.d")
    (checkout / "changelog.d").mkdir()
    with pytest.raises(release.ReleaseRefusedError, match="no fragment"):
        release.release(checkout, "9.1.0")
