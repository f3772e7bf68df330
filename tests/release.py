"""`make release VERSION=0.2.0`: the version into pyproject.toml, the fragments into CHANGELOG.md.

Nothing is committed or published: the tag does that, in `.github/workflows/release.yml`.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
VERSION_LINE = re.compile(r'^version = "[^"]+"', re.MULTILINE)
NEXT = """\
version {version}: pyproject.toml and CHANGELOG.md are changed.
Read CHANGELOG.md, then:
  make lock check
  git commit --all --message "Release {version}"
  git tag --annotate v{version} --message "Release {version}"
  git push --follow-tags
"""


class ReleaseRefusedError(Exception):
    """Nothing was changed."""


def present_version(root: Path) -> Version:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Version(project["version"])


def next_version(root: Path, text: str) -> Version:
    """The version to release.

    Raises:
        ReleaseRefusedError: it is no version, not a later one, or there is nothing to release.
    """
    present = present_version(root)
    try:
        version = Version(text)
    except InvalidVersion:
        raise ReleaseRefusedError(
            f"{text or 'nothing'} is not a version; write: make release VERSION=0.2.0"
        ) from None
    if not re.fullmatch(r"\d+\.\d+\.\d+", str(version)):
        raise ReleaseRefusedError(
            f"{version} is not of the form 0.2.0, which the version of the chart needs"
        )
    if version < present:
        raise ReleaseRefusedError(f"{version} is earlier than the present version {present}")
    if not list((root / "changelog.d").glob("*.md")):
        raise ReleaseRefusedError("changelog.d has no fragment: nothing changed for users")
    if f"## {version} - " in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise ReleaseRefusedError(f"CHANGELOG.md already contains {version}")
    return version


def release(root: Path, text: str) -> Version:
    """Change version, changelog and chart of the checkout; returns the version."""
    version = next_version(root, text)
    subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--yes", "--version", str(version)],
        cwd=root,
        check=True,
    )
    project = root / "pyproject.toml"
    written = project.read_text(encoding="utf-8")
    project.write_text(VERSION_LINE.sub(f'version = "{version}"', written, count=1), "utf-8")
    chart = root / "charts/datarecs/Chart.yaml"
    if chart.is_file():
        lines = chart.read_text(encoding="utf-8")
        lines = re.sub(r"^version: .*$", f"version: {version}", lines, flags=re.MULTILINE)
        lines = re.sub(r"^appVersion: .*$", f'appVersion: "{version}"', lines, flags=re.MULTILINE)
        chart.write_text(lines, encoding="utf-8")
    return version


def main(arguments: list[str]) -> int:
    try:
        version = release(ROOT, arguments[0] if arguments else "")
    except ReleaseRefusedError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 2
    sys.stdout.write(NEXT.format(version=version))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
